"""A running Prometheus, asked over HTTP."""

import json
import math
import time
import urllib.parse
import urllib.request
from http import HTTPStatus
from typing import Any


class Prometheus:
    """Asks the server at *url*."""

    def __init__(self, url: str) -> None:
        self.url = url

    def api(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer; a refused expression raises with Prometheus' own words."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refusal:
            if refusal.code == HTTPStatus.SERVICE_UNAVAILABLE:
                raise ConnectionError("Prometheus is starting still") from None
            raise AssertionError(refusal.read().decode()) from None

    def values(self, expression: str) -> list[float]:
        """Return the values of an instant query that are numbers."""
        found = self.api("query", query=expression)["result"]
        values = [float(series["value"][1]) for series in found]
        return [value for value in values if not math.isnan(value)]

    def drawn(self, expression: str, *, seconds: int) -> list[float]:
        """Return all numbers of a range query over the last *seconds*, as a panel draws them."""
        now = time.time()
        span = {"start": f"{now - seconds}", "end": f"{now}", "step": "1"}
        found = self.api("query_range", query=expression, **span)["result"]
        values = [float(value) for series in found for _, value in series["values"]]
        return [value for value in values if not math.isnan(value)]
