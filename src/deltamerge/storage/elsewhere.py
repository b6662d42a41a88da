"""With what a file is opened that lies outside its table, and whether at all.

A table's log is written by others: it may name any bucket of any host. Credentials only go where the user sends them: to the
whole host (account and domain, or bucket and endpoint) that the user opened or configured. Pure: nothing is opened or looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from deltamerge.storage.credentials import CREDENTIALS, Options, azure_hosts, from_environment, options_for
from deltamerge.storage.location import AZURE, S3, Location

# The settings of Hadoop that name a bucket, or an account with its whole host.
NAMING = {S3: r"^fs\.s3a\.bucket\..+\..+", AZURE: r"^fs\.azure\..+\.(dfs|blob)\..+"}
_HADOOP = "spark.hadoop."


@dataclass(frozen=True, slots=True)
class Told:
    """What the user has told of stores: `options` of the one place that is opened, `settings` and `environment` of any."""

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def of(self, place: Location) -> Options:
        """The options for the place that the user opens. Raises InvalidArgumentError."""
        sources = (self.options, self.settings, from_environment(place.kind, self.environment))
        return options_for(place, *[source for source in sources if source])


def options_elsewhere(here: Location, own: Options, there: Location, told: Told) -> Options | None:
    """The options for `there`, which the log of a table names that lies `here` and is opened with its `own` options.

    None where the user has not said that credentials may go there. Raises InvalidArgumentError for a wrong setting.
    """
    if there.kind != here.kind:
        return None
    return _of_host(here, own, there, told) if there.kind == AZURE else _of_bucket(here, own, there, told)


def _of_bucket(here: Location, own: Options, there: Location, told: Told) -> Options | None:
    """At an endpoint every bucket is reached by what the user has configured for all of them, or for this one."""
    if there.bucket == here.bucket:
        return own
    naming = {name: value for name, value in _plain(told.options).items() if _names(name, there)}
    settings = _plain(told.settings)
    found = options_for(there, naming, settings, from_environment(there.kind, told.environment))
    if naming or any(_names(name, there) for name in settings):
        return found
    if found.get("endpoint") != own.get("endpoint"):
        return None
    credentials = CREDENTIALS[there.kind]
    if own.get("skip_signature", "").lower() == "true":
        return {name: value for name, value in own.items() if name != "region"}
    return found if found.keys() & credentials or not own.keys() & credentials else None


def _of_host(here: Location, own: Options, there: Location, told: Told) -> Options | None:
    """A host of Azure is whatever a URL says: one that the user has not named may be anybody's."""
    if not there.host or _blob_host(there.host) in (_blob_host(here.host), _host_of(own)):
        found = told.of(there)
        return {**found, **{name: own[name] for name in ("account_name", "endpoint") if name in own}}
    naming = {name: value for name, value in _plain(told.options).items() if _names(name, there)}
    settings, environment = _plain(told.settings), from_environment(AZURE, told.environment)
    given = options_for(Location("az", AZURE, there.bucket, ""), environment) if environment else {}
    if naming or any(_names(name, there) for name in settings) or _host_of(given) == _blob_host(there.host):
        return options_for(there, naming, settings, environment)
    return None


def _names(setting: str, place: Location) -> bool:
    """Whether a setting is for this bucket, or for this account at this host, alone."""
    if place.kind == S3:
        return setting.startswith(f"fs.s3a.bucket.{place.bucket}.")
    return any(setting.lower().endswith(f".{host.lower()}") for host in azure_hosts(place))


def _blob_host(host: str) -> str:
    return host.lower().replace(".dfs.", ".blob.")


def _host_of(options: Options) -> str | None:
    """The host that options of Azure lead to, None where they name no account."""
    if "endpoint" in options:
        return urlsplit(options["endpoint"]).hostname
    return f"{options['account_name']}.blob.core.windows.net".lower() if "account_name" in options else None


def _plain(source: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(_HADOOP): value for name, value in source.items()}
