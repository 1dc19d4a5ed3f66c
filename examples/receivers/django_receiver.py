"""A receiver in Django, in one file: ``gunicorn django_receiver:app`` in this folder.

``DATABASE_URL`` names a database with the tables of ``tables.py``, ``WEBHOOK_SECRETS`` the
endpoint's signing secrets, with spaces between. In a project of yours ``Inbox.ddl`` is for a
migration: ``migrations.RunSQL(Inbox.ddl)``.
"""

import json
import os
from typing import Any

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from psycopg.conninfo import conninfo_to_dict

from fencepost.receiver import Inbox, RefusedError, verify

SECRETS = os.environ["WEBHOOK_SECRETS"].split()


@csrf_exempt  # the signature says who sent it
@require_POST
def receive(request: HttpRequest) -> HttpResponse:
    """Act on an event, once."""
    try:
        verify(request.body, request.headers, SECRETS)
        with transaction.atomic():
            if Inbox(connection).once(request.headers):
                act(json.loads(request.body))
    except RefusedError as error:  # say why; the timeline of the delivery shows it
        return HttpResponse(str(error), status=error.status, content_type="text/plain")
    return HttpResponse(status=204)


def act(event: dict[str, Any]) -> None:
    """Do what the event is about, in the transaction that the inbox is in."""
    if event["type"] == "invoice.paid":
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO payments VALUES (%(invoice)s, %(amount)s)", event)


server = conninfo_to_dict(os.environ["DATABASE_URL"])
database = {"ENGINE": "django.db.backends.postgresql", "NAME": server.pop("dbname")}
settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": {**database, "OPTIONS": server}},
    ROOT_URLCONF=__name__,
)
urlpatterns = [path("webhooks", receive)]
app = get_wsgi_application()
