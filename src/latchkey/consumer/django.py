"""The consumer in a Django project."""

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import path as url
from django.views.decorators.csrf import csrf_exempt
from starlette.responses import Response

from latchkey.consumer.blocking_consumer import SERVER_PATHS, USER_PATHS, BlockingConsumer, path_pattern

__all__ = ["DjangoConsumer"]

View = Callable[..., Any]


class DjangoConsumer(BlockingConsumer):
    @property
    def urls(self) -> list[Any]:
        """The endpoints: `path("", include(consumer.urls))`, also below a path of their own."""
        return [
            url(path_pattern(path, "str").removeprefix("/"), self._endpoint(path))
            for path in (*SERVER_PATHS, *USER_PATHS)
        ]

    def require_entitlement(self, entitlement_id: str) -> Callable[[View], View]:
        """`@consumer.require_entitlement("pro")` on a view, plain or async; on a class with `method_decorator`. The
        view has the user's id in `request.app_user_id`."""

        def refusal(request: HttpRequest) -> HttpResponse | None:
            allowed = self._checked(entitlement_id, request)
            if isinstance(allowed, Response):
                return _response(allowed)
            request.app_user_id = allowed
            return None

        def decorate(view: View) -> View:
            @wraps(view)
            def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                return refusal(request) or view(request, *args, **kwargs)

            @wraps(view)
            async def guarded_async(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                return await sync_to_async(refusal)(request) or await view(request, *args, **kwargs)

            return guarded_async if iscoroutinefunction(view) else guarded

        return decorate

    def _endpoint(self, path: str) -> View:
        def endpoint(request: HttpRequest, **path_params: Any) -> HttpResponse:
            query = request.META.get("QUERY_STRING", "")
            return _response(self._answer(path, request, query, path_params, request.read))

        # A session's cookie comes with requests that another site makes a browser send; a token does not.
        by_session = self._host_identify is not None and path in USER_PATHS
        view: View = login_not_required(endpoint if by_session else csrf_exempt(endpoint))
        return view


def _response(found: Response) -> HttpResponse:
    return HttpResponse(bytes(found.body), status=found.status_code, headers=dict(found.headers))
