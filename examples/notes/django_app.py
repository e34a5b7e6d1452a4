"""`app.py` as a Django project in one file."""

import secrets
import time

import django
import jwt
from django.conf import settings as django_settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt

from latchkey.consumer import Settings
from latchkey.consumer.django import DjangoConsumer

django_settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["127.0.0.1"],
    SECRET_KEY=secrets.token_urlsafe(32),
    MIDDLEWARE=["django.middleware.csrf.CsrfViewMiddleware"],
)
django.setup()

settings = Settings.from_env()
consumer = DjangoConsumer(settings)
notes: dict[str, list[str]] = {}


@csrf_exempt
def login(_: HttpRequest, user: str) -> HttpResponse:
    """Signs anybody in as anybody. Your app asks for a password here, and signs tokens with the same secret."""
    token = jwt.encode({"sub": user, "exp": time.time() + 3600}, settings.jwt_secret)
    return HttpResponse(token, content_type="text/plain")


@csrf_exempt
def take(request: HttpRequest, user: str) -> HttpResponse:
    notes.setdefault(user, []).append(request.GET["text"])
    return JsonResponse({"notes": len(notes[user])})


@consumer.require_entitlement("pro")
def export(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"user": request.app_user_id, "notes": notes.get(request.app_user_id, [])})


urlpatterns = [
    path("login/<str:user>", login),
    path("notes/<str:user>", take),
    path("export", export),
    path("", include(consumer.urls)),
]
app = get_wsgi_application()
