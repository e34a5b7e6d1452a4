"""The consumer in a Flask app."""

import re
from collections.abc import Callable
from functools import cached_property, wraps
from io import BytesIO
from typing import Any

import flask
from starlette.responses import Response

from latchkey.consumer.blocking_consumer import SERVER_PATHS, USER_PATHS, BlockingConsumer, path_pattern

__all__ = ["FlaskConsumer"]

View = Callable[..., Any]
# The endpoints answer wrong methods themselves. OPTIONS is Flask's, as for every route.
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class FlaskConsumer(BlockingConsumer):
    @cached_property
    def blueprint(self) -> flask.Blueprint:
        """The endpoints: `app.register_blueprint(consumer.blueprint)`, also with a `url_prefix`."""
        blueprint = flask.Blueprint("latchkey", __name__)
        for path in (*SERVER_PATHS, *USER_PATHS):
            blueprint.add_url_rule(path_pattern(path, "string"), view_func=self._endpoint(path), methods=_METHODS)
        return blueprint

    def require_entitlement(self, entitlement_id: str) -> Callable[[View], View]:
        """`@consumer.require_entitlement("pro")`, below `@app.get(…)`. The view has the user's id in
        `g.app_user_id`."""

        def decorate(view: View) -> View:
            @wraps(view)
            def guarded(*args: Any, **kwargs: Any) -> Any:
                allowed = self._checked(entitlement_id, flask.request)
                if isinstance(allowed, Response):
                    return _response(allowed)
                flask.g.app_user_id = allowed
                return flask.current_app.ensure_sync(view)(*args, **kwargs)

            return guarded

        return decorate

    def _endpoint(self, path: str) -> View:
        def endpoint(**path_params: Any) -> flask.Response:
            request = flask.request
            # If a hook of the app has read the body, Flask keeps it.
            stream = BytesIO(request.get_data()) if "stream" in request.__dict__ else request.stream
            query = request.query_string.decode("latin-1")
            return _response(self._answer(path, request, query, path_params, stream.read))

        # Flask's endpoint is called "latchkey.webhooks_billing". Flask-WTF knows a view by its function's name.
        endpoint.__name__ = re.sub(r"\W+", "_", path).strip("_")
        return endpoint


def _response(found: Response) -> flask.Response:
    return flask.Response(bytes(found.body), found.status_code, dict(found.headers))
