"""Tools for assistants (MCP): operations of the API that `tools.toml` lists, at `/mcp` and as `latchkey mcp`.

Begin with `rules.py`: a tool from the OpenAPI document, and a request from a call. `usecases.py` speaks the protocol;
it alone imports the package `mcp`, which takes a second. So it is imported when it is first needed.
"""
