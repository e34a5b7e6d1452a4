"""`latchkey webhook`: webhooks, their deliveries, and sending again."""

from latchkey.cli.webhook import sending as sending
from latchkey.cli.webhook.commands import app as app
