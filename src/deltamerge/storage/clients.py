"""The clients of object stores: connections, credentials and time limits, shared by all tables of a bucket."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs as pf
from obstore.store import AzureStore, GCSStore, S3Store

from deltamerge.storage.credentials import Options
from deltamerge.storage.location import AZURE, S3

_RETRY: Any = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
_NO_RETRY: Any = {"max_retries": 0}


@lru_cache(maxsize=256)
def region_of(bucket: str) -> str:
    """The region that Amazon says a bucket is in; one request, without credentials."""
    try:
        region: str = pf.resolve_s3_region(bucket)
    except (OSError, ValueError):
        return "us-east-1"
    return region


@lru_cache(maxsize=64)
def client(kind: str, bucket: str, options: frozenset[tuple[str, str]], retries: bool = True) -> Any:
    """The client of a bucket with these options. Without `retries` each call sends one request."""
    given = dict(options)
    # A client's total timeout would cut off large objects on slow lines; a stalled line is noticed by the read timeout.
    http: Any = {
        "allow_http": given.get("endpoint", "").startswith("http://"),
        "connect_timeout": timedelta(seconds=10),
        "read_timeout": timedelta(seconds=30),
        "timeout": timedelta(minutes=10),
    }
    more = {"client_options": http, "retry_config": _RETRY if retries else _NO_RETRY}
    if kind == S3:
        return _s3(bucket, given, more)
    if kind == AZURE:
        return _azure(bucket, given, more)
    names = {"endpoint": "base_url"}
    config: Any = {names.get(key, key): value for key, value in given.items()}
    return GCSStore(bucket, config=config, **more)


def _s3(bucket: str, given: Options, more: Any) -> S3Store:
    config: Any = {"virtual_hosted_style_request": "false", "skip_signature": "false", **given}
    virtual = config["virtual_hosted_style_request"].lower() == "true"
    provider: Any = None
    endpoint = config.pop("endpoint", None)
    if endpoint is not None:
        url = urlsplit(endpoint)
        # The variable AWS_ENDPOINT_URL_S3 would override a mere `endpoint`.
        config["aws_endpoint_url_s3"] = f"{url.scheme}://{bucket}.{url.netloc}" if virtual else endpoint
    if "access_key_id" in config:
        # A provider, not options: those would be mixed with a session token of the environment.
        provider = partial(
            dict,
            access_key_id=config.pop("access_key_id"),
            secret_access_key=config.pop("secret_access_key", ""),
            token=config.pop("session_token", None),
            expires_at=None,
        )
    return S3Store(bucket, config=config, credential_provider=provider, **more)


def _azure(container: str, given: Options, more: Any) -> AzureStore:
    config: Any = dict(given)
    if "account_key" in config:
        config["credential_type"] = "access_key"
    elif "sas_key" in config:
        config["credential_type"] = "sas_token"
    elif "client_secret" in config:
        config["credential_type"] = "client_secret"
    return AzureStore(container, config=config, **more)
