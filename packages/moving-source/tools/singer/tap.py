"""A tap by the SDK of Meltano: lists, the details of each ticket as a child stream, an incremental key with a lookback. SORT is the
order of the list. With END a 422 ends it, and the next run goes on from there.

https://sdk.meltano.com/en/latest/classes/singer_sdk.RESTStream.html
https://sdk.meltano.com/en/latest/parent_streams.html
https://sdk.meltano.com/en/latest/implementation/at_least_once.html: streams that are sorted in reverse
"""

import os
from datetime import timedelta

from singer_sdk import Tap
from singer_sdk import typing as th
from singer_sdk.authenticators import BearerTokenAuthenticator
from singer_sdk.pagination import BasePageNumberPaginator
from singer_sdk.streams import RESTStream


def properties(*names, more=()):
    return th.PropertiesList(*[th.Property(name, th.StringType) for name in names], *more).to_dict()


class Pages(BasePageNumberPaginator):
    def has_more(self, response):
        return response.status_code == 200 and bool(response.json())


class Desk(RESTStream):
    url_base = os.environ["SOURCE_URL"]
    records_jsonpath = "$[*]"
    primary_keys = ("id",)

    @property
    def authenticator(self):
        return BearerTokenAuthenticator(token=os.environ["SOURCE_TOKEN"])

    def get_new_paginator(self):
        return Pages(start_value=1)

    def get_url_params(self, context, next_page_token):
        return {"per_page": 100, "page": next_page_token or 1}

    # https://sdk.meltano.com/en/latest/code_samples.html#custom-response-validation
    ends = (422,) if os.environ.get("END") else ()

    def validate_response(self, response):
        if response.status_code not in self.ends:
            super().validate_response(response)

    def parse_response(self, response):
        return [] if response.status_code in self.ends else super().parse_response(response)

    def backoff_wait_generator(self):
        """https://sdk.meltano.com/en/latest/classes/singer_sdk.RESTStream.html: the wait that the service asks for."""
        answered = lambda error: getattr(error, "response", None) is not None
        return self.backoff_runtime(value=lambda error: int(error.response.headers.get("Rate-Limit-Reset", 1)) if answered(error) else 1)

    def backoff_max_tries(self):
        return 10


class Users(Desk):
    name, path = "users", "/users"
    schema = properties("id", "first_name", "last_name", "email")

    def get_new_paginator(self):
        return None


class Customers(Desk):
    name, path = "customers", "/customers"
    contacts = th.Property("contacts", th.ArrayType(th.ObjectType(additional_properties=True)))
    schema = properties("id", "first_name", "last_name", more=[contacts])

    def get_url_params(self, context, next_page_token):
        return {**super().get_url_params(context, next_page_token), "sort": "created_at"}


FIELDS = [
    *[th.Property(name, th.BooleanType) for name in ("spam", "trash")],
    *[th.Property(name, th.DateTimeType) for name in ("updated_at", "created_at")],
    th.Property("label_ids", th.ArrayType(th.StringType)),
]
TEXTS = ("id", "customer_id", "user_id", "inbox_id", "state", "subject", "type")


class Tickets(Desk):
    name, path = "tickets", "/tickets"
    schema = properties(*TEXTS, more=FIELDS)
    replication_key = "updated_at"
    # A sorted stream would refuse the rows of the lookback.
    is_sorted = False

    def get_url_params(self, context, next_page_token):
        query = {**super().get_url_params(context, next_page_token), "sort": os.environ["SORT"]}
        if since := self.get_starting_timestamp(context):
            since -= timedelta(seconds=int(os.environ["LOOKBACK"]))
            query["since_updated_at"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")
        return query

    def get_child_context(self, record, context):
        return {"ticket_id": record["id"]}


class Details(Desk):
    name, path = "details", "/tickets/{ticket_id}"
    records_jsonpath = "$"
    messages = th.Property("messages", th.ArrayType(th.ObjectType(additional_properties=True)))
    schema = properties(*TEXTS, "ticket_id", more=[*FIELDS, messages])
    parent_stream_type = Tickets
    # A ticket has no state of its own.
    state_partitioning_keys = ()
    ends = (404,)

    def get_new_paginator(self):
        return None

    def get_url_params(self, context, next_page_token):
        return {"embed": "messages"}


class TapDesk(Tap):
    name = "tap-desk"
    config_jsonschema = th.PropertiesList(th.Property("start_date", th.DateTimeType)).to_dict()

    def discover_streams(self):
        return [Users(self), Customers(self), Tickets(self), Details(self)]


if __name__ == "__main__":
    TapDesk.cli()
