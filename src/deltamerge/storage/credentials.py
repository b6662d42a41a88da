"""The options that an object store is opened with, from what users set: Spark's settings, explicit options, the environment.

Pure: nothing is opened or looked up. Values may be secrets, so that errors name options only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from deltamerge.errors import InvalidArgumentError
from deltamerge.storage.location import AZURE, GOOGLE, S3, Location

Options = dict[str, str]

# Every name that an option may have, without its aws_, azure_ or google_, and what it is called from here on.
_NAMES: Mapping[str, Mapping[str, str]] = {
    S3: {
        "access_key_id": "access_key_id",
        "secret_access_key": "secret_access_key",
        "session_token": "session_token",
        "token": "session_token",
        "default_region": "region",
        "region": "region",
        "endpoint": "endpoint",
        "endpoint_url": "endpoint",
        "endpoint_url_s3": "endpoint",
        "virtual_hosted_style_request": "virtual_hosted_style_request",
        "skip_signature": "skip_signature",
        "conditional_put": "conditional_put",
        "allow_http": "",
    },
    AZURE: {
        "account_name": "account_name",
        "account_key": "account_key",
        "access_key": "account_key",
        "master_key": "account_key",
        "sas_key": "sas_key",
        "sas_token": "sas_key",
        "client_id": "client_id",
        "client_secret": "client_secret",
        "tenant_id": "tenant_id",
        "authority_id": "tenant_id",
        "endpoint": "endpoint",
        "allow_http": "",
    },
    GOOGLE: {
        "application_credentials": "application_credentials",
        "service_account": "application_credentials",
        "service_account_path": "application_credentials",
        "bearer_token": "bearer_token",
        "skip_signature": "skip_signature",
        "base_url": "endpoint",
        "endpoint": "endpoint",
        "allow_http": "",
    },
}
_PREFIXES = {S3: ("aws_",), AZURE: ("azure_storage_", "azure_"), GOOGLE: ("google_",)}
CREDENTIALS: Mapping[str, frozenset[str]] = {
    S3: frozenset({"access_key_id", "secret_access_key", "session_token", "skip_signature"}),
    AZURE: frozenset({"account_key", "sas_key", "client_id", "client_secret", "tenant_id"}),
    GOOGLE: frozenset({"application_credentials", "bearer_token", "skip_signature"}),
}
SECRETS = frozenset(
    {"access_key_id", "secret_access_key", "session_token", "account_key", "sas_key", "client_secret", "bearer_token"}
)

_S3_SETTINGS = (
    "access.key",
    "secret.key",
    "session.token",
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "connection.ssl.enabled",
    "aws.credentials.provider",
    "encryption.algorithm",
    "server-side-encryption-algorithm",
)
_GOOGLE_SETTINGS = (
    "google.cloud.auth.service.account.json.keyfile",
    "fs.gs.auth.service.account.json.keyfile",
    "fs.gs.auth.type",
    "fs.gs.storage.root.url",
)
_AZURE_AUTH = (
    "fs.azure.account.auth.type",
    "fs.azure.account.oauth.provider.type",
    "fs.azure.account.oauth2.client.id",
    "fs.azure.account.oauth2.client.secret",
    "fs.azure.account.oauth2.client.endpoint",
    "fs.azure.account.key",
    "fs.azure.sas.fixed.token",
)
_AWS_HOST = re.compile(r"(?:https?://)?s3(?:[.-]([a-z]{2}(?:-[a-z]+)+-\d+))?\.amazonaws\.com/?")
_TENANT = re.compile(r"https?://[^/]+/([^/]+)/oauth2/.*")


def options_for(location: Location, *sources: Mapping[str, str]) -> Options:
    """The options for the store of `location`, each taken from the first of `sources` that sets it.

    A source holds Hadoop's settings (`fs.s3a.access.key`, with or without `spark.hadoop.`), options as object stores'
    clients name them (`aws_access_key_id`, `AWS_ACCESS_KEY_ID`), or both; the latter win. Credentials come from one
    source as a whole: a key of one and a session token of another never meet. The result is a source itself.
    Raises InvalidArgumentError for an option that is not known or can't be heeded.
    """
    found: Options = {}
    credentials = CREDENTIALS[location.kind]
    for source in reversed(sources):
        settings = {key.removeprefix("spark.hadoop."): value for key, value in source.items()}
        for options in (_HADOOP[location.kind](location, settings), _explicit(location.kind, settings)):
            if location.account and options.get("account_name", location.account) != location.account:
                continue  # another account's: neither its key nor its endpoint is this one's
            if options.keys() & credentials:
                found = {key: value for key, value in found.items() if key not in credentials}
            found.update(options)
    if location.account:
        found["account_name"] = location.account
        suffix = location.host.partition(".")[2].partition(".")[2]
        if suffix != "core.windows.net":
            found.setdefault("endpoint", f"https://{location.account}.blob.{suffix}")
    return found


def from_environment(kind: str, environment: Mapping[str, str]) -> Options:
    """The variables of the environment that are options of a kind of store; the more specific of two names wins."""
    names = sorted(_NAMES[kind], key=lambda name: (name == "endpoint_url_s3", name == "region"))
    known = [f"{prefix}{name}".upper() for name in names for prefix in reversed(_PREFIXES[kind])]
    if kind == S3 and "AWS_SERVER_SIDE_ENCRYPTION" in environment:
        known.append("AWS_SERVER_SIDE_ENCRYPTION")
    return {key: environment[key] for key in known if environment.get(key)}


def setting_names(location: Location) -> Sequence[str]:
    """The names of Hadoop's settings that matter for a location, the more specific ones first."""
    if location.kind == S3:
        general = [f"fs.s3a.{name}" for name in _S3_SETTINGS]
        return [f"fs.s3a.bucket.{location.bucket}.{name}" for name in _S3_SETTINGS] + general
    if location.kind == AZURE:
        hosts = azure_hosts(location)
        specific = [f"{name}.{host}" for name in _AZURE_AUTH for host in hosts]
        sas = f"fs.azure.sas.{location.bucket}"
        return [*specific, *(f"{sas}.{host}" for host in hosts), *_AZURE_AUTH, sas]
    return _GOOGLE_SETTINGS if location.kind == GOOGLE else ()


def _explicit(kind: str, source: Mapping[str, str]) -> Options:
    found: Options = {}
    for key, value in source.items():
        name = key.lower()
        if name.startswith(("fs.", "google.cloud.", "spark.", "hadoop.")):
            continue
        bare = next((name.removeprefix(prefix) for prefix in _PREFIXES[kind] if name.startswith(prefix)), name)
        if bare == "server_side_encryption":
            _check_encryption(key, value)
        elif bare not in _NAMES[kind]:
            raise _unknown(key, kind)
        elif _NAMES[kind][bare]:
            found[_NAMES[kind][bare]] = value
    return found


def _s3(location: Location, settings: Mapping[str, str]) -> Options:
    def setting(name: str) -> str:
        return settings.get(f"fs.s3a.bucket.{location.bucket}.{name}") or settings.get(f"fs.s3a.{name}") or ""

    for name in ("encryption.algorithm", "server-side-encryption-algorithm"):
        _check_encryption(f"fs.s3a.{name}", setting(name))
    found = {
        "access_key_id": setting("access.key"),
        "secret_access_key": setting("secret.key"),
        "session_token": setting("session.token"),
        "region": setting("endpoint.region"),
    }
    provider = setting("aws.credentials.provider")
    if "AssumedRole" in provider:
        raise _refused("fs.s3a.aws.credentials.provider", "assuming a role is not supported", "Assume it, and give its keys.")
    if "AnonymousAWSCredentials" in provider and not found["access_key_id"]:
        found["skip_signature"] = "true"
    endpoint = setting("endpoint")
    usual = _AWS_HOST.fullmatch(endpoint)
    if usual:
        found["region"] = found["region"] or usual[1] or ""
    elif endpoint:
        plain = setting("connection.ssl.enabled").lower() == "false"
        found["endpoint"] = endpoint if "://" in endpoint else f"{'http' if plain else 'https'}://{endpoint}"
        found["virtual_hosted_style_request"] = "false" if _path_style(found["endpoint"], setting) else "true"
    return {key: value for key, value in found.items() if value}


def _path_style(endpoint: str, setting: Callable[[str], str]) -> bool:
    """Whether the bucket stands in the path: when it is asked for, or when the host is a number that has no subdomains."""
    host = urlsplit(endpoint).hostname or ""
    return setting("path.style.access").lower() == "true" or host == "localhost" or not re.search("[a-z]", host)


def _azure(location: Location, settings: Mapping[str, str]) -> Options:
    def setting(name: str) -> str:
        named = (settings.get(f"{name}.{host}") for host in azure_hosts(location))
        return next((value for value in named if value), None) or settings.get(name) or ""

    if setting("fs.azure.account.auth.type").lower() == "oauth":
        found = {"client_id": setting("fs.azure.account.oauth2.client.id")}
        if "Msi" not in setting("fs.azure.account.oauth.provider.type"):
            endpoint = setting("fs.azure.account.oauth2.client.endpoint")
            tenant = _TENANT.fullmatch(endpoint)
            if tenant is None:
                hint = "It is https://login.microsoftonline.com/<tenant>/oauth2/token."
                raise _refused("fs.azure.account.oauth2.client.endpoint", "its value names no tenant", hint)
            found |= {"client_secret": setting("fs.azure.account.oauth2.client.secret"), "tenant_id": tenant[1]}
        return {key: value for key, value in found.items() if value}
    sas = setting(f"fs.azure.sas.{location.bucket}") or setting("fs.azure.sas.fixed.token")
    key = setting("fs.azure.account.key")
    if sas:
        return {"sas_key": sas.removeprefix("?")}
    return {"account_key": key} if key else {}


def azure_hosts(location: Location) -> list[str]:
    """The host as it is written, and under the name of the account's other service, dfs or blob."""
    if not location.host:
        return []
    swapped = location.host.replace(".dfs.", ".blob.") if ".dfs." in location.host else location.host.replace(".blob.", ".dfs.")
    return list(dict.fromkeys([location.host, swapped]))


def _google(location: Location, settings: Mapping[str, str]) -> Options:
    keyfile = settings.get("fs.gs.auth.service.account.json.keyfile")
    keyfile = keyfile or settings.get("google.cloud.auth.service.account.json.keyfile")
    found = {"application_credentials": keyfile or "", "endpoint": settings.get("fs.gs.storage.root.url") or ""}
    if settings.get("fs.gs.auth.type", "").upper() == "UNAUTHENTICATED":
        found["skip_signature"] = "true"
    if found["endpoint"].rstrip("/") == "https://storage.googleapis.com":
        del found["endpoint"]
    return {key: value for key, value in found.items() if value}


_HADOOP: Mapping[str, Callable[[Location, Mapping[str, str]], Options]] = {S3: _s3, AZURE: _azure, GOOGLE: _google}


def _check_encryption(name: str, value: str) -> None:
    """S3 encrypts whatever it stores; to ask for another key than the bucket's own is not possible everywhere."""
    if value and value.upper() not in ("AES256", "SSE-S3"):
        raise _refused(name, "data files can't be written with it", "Set the default encryption of the bucket instead.")


def _refused(name: str, cause: str, hint: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "DELTAMERGE_UNSUPPORTED_STORE_OPTION", f"The option {name}: {cause}.", parameters={"option": name}, hint=hint
    )


def _unknown(name: str, kind: str) -> InvalidArgumentError:
    known = sorted(f"{_PREFIXES[kind][-1]}{bare}" for bare in _NAMES[kind])
    return InvalidArgumentError(
        "DELTAMERGE_UNKNOWN_STORE_OPTION",
        f"The store has no option {name}.",
        parameters={"option": name},
        hint=f"Known are {', '.join(known)}, and Hadoop's settings (fs.s3a.*, fs.azure.*, fs.gs.*).",
    )
