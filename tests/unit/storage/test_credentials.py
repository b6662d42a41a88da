"""Options for a store from what users set, as a table; where two sources disagree, and what is refused."""

from __future__ import annotations

import pytest

from deltamerge.errors import InvalidArgumentError
from deltamerge.storage.credentials import _HADOOP, from_environment, options_for, setting_names
from deltamerge.storage.location import parse_location

S3 = "s3a://bucket/table"
AZURE = "abfss://box@acct.dfs.core.windows.net/table"
HOST = "acct.dfs.core.windows.net"
LOGIN = "https://login.microsoftonline.com/the-tenant/oauth2/token"
KEYS = {"access_key_id": "k", "secret_access_key": "s"}
HADOOP_KEYS = {"fs.s3a.access.key": "k", "fs.s3a.secret.key": "s"}
OAUTH = {
    "fs.azure.account.auth.type": "OAuth",
    "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
    "fs.azure.account.oauth2.client.id": "i",
    "fs.azure.account.oauth2.client.secret": "s",
    "fs.azure.account.oauth2.client.endpoint": LOGIN,
}


@pytest.mark.parametrize(
    ("location", "settings", "expected"),
    [
        (S3, {}, {}),
        (S3, HADOOP_KEYS, KEYS),
        (S3, {f"spark.hadoop.{name}": value for name, value in HADOOP_KEYS.items()}, KEYS),
        ("s3://bucket/t", {**HADOOP_KEYS, "fs.s3a.session.token": "t"}, {**KEYS, "session_token": "t"}),
        (S3, {**HADOOP_KEYS, "fs.s3a.bucket.bucket.access.key": "own"}, {**KEYS, "access_key_id": "own"}),
        (S3, {**HADOOP_KEYS, "fs.s3a.bucket.other.access.key": "own"}, KEYS),
        (S3, {"fs.s3a.endpoint.region": "eu-west-1"}, {"region": "eu-west-1"}),
        (S3, {"fs.s3a.endpoint": "s3.eu-west-1.amazonaws.com"}, {"region": "eu-west-1"}),
        (S3, {"fs.s3a.endpoint": "https://s3.amazonaws.com", "fs.s3a.endpoint.region": "x"}, {"region": "x"}),
        (
            S3,
            {"fs.s3a.endpoint": "minio.example:9000", "fs.s3a.path.style.access": "true"},
            {"endpoint": "https://minio.example:9000", "virtual_hosted_style_request": "false"},
        ),
        (
            S3,
            {"fs.s3a.endpoint": "minio.example:9000", "fs.s3a.connection.ssl.enabled": "false"},
            {"endpoint": "http://minio.example:9000", "virtual_hosted_style_request": "true"},
        ),
        (
            S3,
            {"fs.s3a.endpoint": "http://127.0.0.1:9000"},
            {"endpoint": "http://127.0.0.1:9000", "virtual_hosted_style_request": "false"},
        ),
        (S3, {"fs.s3a.aws.credentials.provider": "x.AnonymousAWSCredentialsProvider"}, {"skip_signature": "true"}),
        (S3, {"fs.s3a.encryption.algorithm": "AES256"}, {}),
        (S3, {"AWS_ACCESS_KEY_ID": "k", "aws_secret_access_key": "s"}, KEYS),
        (S3, {**KEYS, "endpoint_url": "http://h", "allow_http": "true"}, {**KEYS, "endpoint": "http://h"}),
        (S3, {**HADOOP_KEYS, "fs.s3a.session.token": "t", "aws_access_key_id": "x", "aws_secret_access_key": "y"},
         {"access_key_id": "x", "secret_access_key": "y"}),
        (AZURE, {}, {"account_name": "acct"}),
        (AZURE, {f"fs.azure.account.key.{HOST}": "k"}, {"account_name": "acct", "account_key": "k"}),
        (AZURE, {"fs.azure.account.key.acct.blob.core.windows.net": "k"}, {"account_name": "acct", "account_key": "k"}),
        (AZURE, {"fs.azure.account.key.other.dfs.core.windows.net": "k"}, {"account_name": "acct"}),
        (AZURE, {f"fs.azure.sas.box.{HOST}": "?sv=1&sig=x"}, {"account_name": "acct", "sas_key": "sv=1&sig=x"}),
        (AZURE, {f"fs.azure.sas.fixed.token.{HOST}": "sv=1"}, {"account_name": "acct", "sas_key": "sv=1"}),
        (AZURE, OAUTH, {"account_name": "acct", "client_id": "i", "client_secret": "s", "tenant_id": "the-tenant"}),
        (
            AZURE,
            {f"{name}.{HOST}": value for name, value in OAUTH.items()},
            {"account_name": "acct", "client_id": "i", "client_secret": "s", "tenant_id": "the-tenant"},
        ),
        (
            AZURE,
            {"fs.azure.account.auth.type": "OAuth", "fs.azure.account.oauth.provider.type": "x.MsiTokenProvider",
             "fs.azure.account.oauth2.client.id": "i"},
            {"account_name": "acct", "client_id": "i"},
        ),
        (
            "abfss://box@acct.dfs.core.chinacloudapi.cn/t",
            {},
            {"account_name": "acct", "endpoint": "https://acct.blob.core.chinacloudapi.cn"},
        ),
        ("az://box/t", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "AZURE_STORAGE_ACCESS_KEY": "k"},
         {"account_name": "a", "account_key": "k"}),
        (AZURE, {"azure_storage_account_name": "other", "azure_storage_account_key": "k"}, {"account_name": "acct"}),
        ("gs://b/t", {"fs.gs.auth.service.account.json.keyfile": "/k.json"}, {"application_credentials": "/k.json"}),
        ("gs://b/t", {"google.cloud.auth.service.account.json.keyfile": "/k.json"}, {"application_credentials": "/k.json"}),
        ("gs://b/t", {"fs.gs.auth.type": "UNAUTHENTICATED"}, {"skip_signature": "true"}),
        ("gs://b/t", {"fs.gs.storage.root.url": "https://storage.googleapis.com/"}, {}),
        ("gs://b/t", {"GOOGLE_APPLICATION_CREDENTIALS": "/k.json"}, {"application_credentials": "/k.json"}),
    ],
)  # fmt: skip
def test_settings_become_options(location: str, settings: dict[str, str], expected: dict[str, str]) -> None:
    place = parse_location(location)
    found = options_for(place, settings)
    assert found == expected
    assert options_for(place, found) == found


@pytest.mark.parametrize(
    ("location", "sources", "expected"),
    [
        (S3, [{"aws_access_key_id": "x"}, {**HADOOP_KEYS, "fs.s3a.session.token": "t"}], {"access_key_id": "x"}),
        (S3, [HADOOP_KEYS, {"AWS_SESSION_TOKEN": "t", "AWS_REGION": "r"}], {**KEYS, "region": "r"}),
        (S3, [{"aws_skip_signature": "true"}, HADOOP_KEYS], {"skip_signature": "true"}),
        (S3, [{"aws_region": "x"}, HADOOP_KEYS], {**KEYS, "region": "x"}),
        (AZURE, [{f"fs.azure.sas.box.{HOST}": "sv"}, {"AZURE_STORAGE_ACCOUNT_KEY": "k"}],
         {"account_name": "acct", "sas_key": "sv"}),
        (AZURE, [OAUTH, {"AZURE_STORAGE_ACCOUNT_KEY": "k"}],
         {"account_name": "acct", "client_id": "i", "client_secret": "s", "tenant_id": "the-tenant"}),
    ],
)  # fmt: skip
def test_earlier_sources_win_and_credentials_come_from_one(
    location: str, sources: list[dict[str, str]], expected: dict[str, str]
) -> None:
    assert options_for(parse_location(location), *sources) == expected


@pytest.mark.parametrize(
    ("location", "settings", "condition", "named"),
    [
        (S3, {"aws_acces_key_id": "SECRET"}, "DELTAMERGE_UNKNOWN_STORE_OPTION", "aws_acces_key_id"),
        (AZURE, {"aws_access_key_id": "SECRET"}, "DELTAMERGE_UNKNOWN_STORE_OPTION", "aws_access_key_id"),
        (S3, {"fs.s3a.encryption.algorithm": "SSE-KMS"}, "DELTAMERGE_UNSUPPORTED_STORE_OPTION", "fs.s3a.encryption.algorithm"),
        (S3, {"AWS_SERVER_SIDE_ENCRYPTION": "aws:kms"}, "DELTAMERGE_UNSUPPORTED_STORE_OPTION", "AWS_SERVER_SIDE_ENCRYPTION"),
        (
            S3,
            {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"},
            "DELTAMERGE_UNSUPPORTED_STORE_OPTION",
            "fs.s3a.aws.credentials.provider",
        ),
        (
            AZURE,
            {**OAUTH, "fs.azure.account.oauth2.client.endpoint": "SECRET"},
            "DELTAMERGE_UNSUPPORTED_STORE_OPTION",
            "fs.azure.account.oauth2.client.endpoint",
        ),
    ],
)
def test_what_can_not_be_heeded_is_refused_by_name(location: str, settings: dict[str, str], condition: str, named: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        options_for(parse_location(location), settings)
    assert caught.value.condition == condition
    assert caught.value.parameters == {"option": named}
    assert "SECRET" not in str(caught.value)


def test_of_the_environment_only_known_variables_count_and_specific_ones_win() -> None:
    environment = {
        "AWS_ENDPOINT_URL": "http://general",
        "AWS_ENDPOINT_URL_S3": "http://s3",
        "AWS_DEFAULT_REGION": "general",
        "AWS_REGION": "own",
        "AWS_PROFILE": "x",
        "AWS_ACCESS_KEY_ID": "",
        "PATH": "/bin",
    }
    found = options_for(parse_location(S3), from_environment("s3", environment))
    assert found == {"endpoint": "http://s3", "region": "own"}
    assert options_for(parse_location("az://b/t"), from_environment("azure", {"AZURE_CLIENT_ID": "i"})) == {"client_id": "i"}


class Asked(dict[str, str]):
    """Settings that note which ones they were asked for."""

    def __init__(self, *args: dict[str, str]) -> None:
        super().__init__(*args)
        self.names: set[str] = set()

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.names.add(key)
        return super().get(key, default)


@pytest.mark.parametrize("settings", [{}, OAUTH])
@pytest.mark.parametrize("location", [S3, AZURE, "gs://b/t", "az://box/t"])
def test_a_session_is_asked_for_every_setting_that_is_heeded(location: str, settings: dict[str, str]) -> None:
    place, asked = parse_location(location), Asked(settings)
    _HADOOP[place.kind](place, asked)
    assert asked.names
    assert asked.names <= set(setting_names(place))


def test_the_settings_of_a_local_path_are_none() -> None:
    assert setting_names(parse_location("/data/table")) == ()
