"""The registry of hosts: nothing is lost, nothing is twice, no token is shown, a damaged file is left alone."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hawkeye_mcp.hosts import registry
from hawkeye_mcp.hosts.health import Health, Machine, VersionsThere
from hawkeye_mcp.hosts.registry import BadHost, DamagedRegistry, Facts, Host, UnknownHost

FACTS = Facts(
    when="2026-01-01T00:00:00+00:00",
    machine=Machine(versions=VersionsThere(hawkeye="1", jax="2", jaxlib="3", libtpu="4"), tpus=["v6e"] * 4, cpus=180),
)
ADDER = """
import sys
from hawkeye_mcp.hosts import registry
for number in range(int(sys.argv[2])):
    registry.add(f"{sys.argv[1]}-{number}", registry.Host(url=f"http://{sys.argv[1]}-{number}:1"))
    registry.remove(f"{sys.argv[1]}-{number}") if number % 5 == 4 else None
print("done")
"""


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HAWKEYE_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config" / "hosts.json"


def test_what_was_added_is_there_in_its_order_and_only_its_owner_can_read_it(config):
    assert registry.read() == {}
    hosts = {"tpu-2": Host(ssh="me@tpu-vm", port=9000, timeout_s=30), "tpu-1": Host(url="https://tpu", token="secret")}
    for name, host in hosts.items():
        assert registry.add(name, host)
    registry.note("tpu-1", hosts["tpu-1"], FACTS)
    assert registry.read() == {"tpu-2": hosts["tpu-2"], "tpu-1": hosts["tpu-1"].model_copy(update={"facts": FACTS})}
    assert list(registry.find("all")) == ["tpu-2", "tpu-1"]
    assert list(registry.find("tpu-1, tpu-2,tpu-1")) == ["tpu-1", "tpu-2"]
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert json.loads(config.read_text())["hosts"]["tpu-1"]["token"] == "secret"
    assert "secret" not in f"{registry.read()} {registry.read()['tpu-1']!r}"
    registry.remove("tpu-2")
    assert list(registry.read()) == ["tpu-1"]


def test_another_token_for_the_same_host_keeps_what_was_found_of_it():
    registry.add("a", Host(url="http://a", token="old"))
    registry.note("a", Host(url="http://a"), FACTS)
    assert registry.add("a", Host(url="http://a", token_env="TOKEN")) is False
    assert registry.read()["a"] == Host(url="http://a", token_env="TOKEN", facts=FACTS)


def test_what_is_found_of_a_host_that_is_another_one_by_now_is_not_kept():
    registry.note("gone", Host(url="http://gone"), FACTS)
    registry.add("a", Host(url="http://new"))
    registry.note("a", Host(url="http://old"), FACTS)
    assert registry.read() == {"a": Host(url="http://new")}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"url": "http://TPU-1:80/"}, {"url": "HTTP://tpu-1/mcp"}),
        ({"url": "https://tpu-1"}, {"url": "https://tpu-1:443/mcp/"}),
        ({"url": "http://[::1]:8931"}, {"url": "http://[::1]:8931/mcp"}),
        ({"ssh": "me@tpu-1"}, {"ssh": "me@tpu-1", "port": 8931}),
    ],
)
def test_one_address_is_one_host_however_it_is_written(first, second):
    one, other = (
        Host(**{k: registry.address_of(v) if k == "url" else v for k, v in x.items()}) for x in (first, second)
    )
    registry.add("a", one)
    with pytest.raises(BadHost, match="registered already, as a; `hawkeye hosts remove a` first"):
        registry.add("b", other)
    assert registry.add("a", other) is False
    with pytest.raises(BadHost, match="`hawkeye hosts remove a` first, or choose another name"):
        registry.add("a", Host(url="http://elsewhere"))
    assert list(registry.read()) == ["a"]


def test_hosts_that_differ_in_scheme_port_path_or_user_are_different():
    for number, url in enumerate(("http://a", "https://a", "http://a:81", "http://a/behind/proxy", "http://b")):
        registry.add(f"url{number}", Host(url=registry.address_of(url)))
    for number, (ssh, port) in enumerate((("a", 8931), ("a", 8932), ("me@a", 8931))):
        registry.add(f"ssh{number}", Host(ssh=ssh, port=port))
    assert len(registry.read()) == 8


@pytest.mark.parametrize("name", ["", "all", "a,b", "-a", "a b", "a/b", "a" * 65, "\u00e4", "a\n"])
def test_a_name_that_could_be_taken_for_something_else_is_refused(name):
    with pytest.raises(BadHost, match="use letters, digits"):
        registry.add(name, Host(url="http://a"))


@pytest.mark.parametrize(
    "url",
    [
        "tpu-1",
        "ftp://a",
        "http://",
        "http://a:99999",
        "http://a:0",
        "http://me:pw@a",
        "http://a/?t=1",
        "http://a/#x",
        "http://a b",
        "http://[::1",
    ],
)
def test_what_is_no_servers_url_is_refused(url):
    with pytest.raises(BadHost):
        registry.address_of(url)


@pytest.mark.parametrize("target", ["-oProxyCommand=x", "me@-oX", "a b", "a;b", "$(x)", "a'b", "a\n", "@a", "a@b@c"])
def test_what_ssh_or_a_shell_could_take_for_more_than_a_target_is_refused(target):
    with pytest.raises(ValueError, match="is no SSH target"):
        Host(ssh=target)


@pytest.mark.parametrize(
    "fields",
    [{}, {"url": "http://a", "ssh": "a"}, {"url": "http://a", "token": "x", "token_env": "X"}, {"ssh": "a", "port": 0}],
)
def test_a_host_has_one_address_and_one_token(fields):
    with pytest.raises(ValueError, match="host has|port"):
        Host(**fields)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "EOF"),
        ("[]", "object"),
        ('{"schema": "hawkeye.hosts/2", "hosts": {}}', "schema"),
        ('{"schema": "hawkeye.hosts/1", "hosts": {"a": {"url": "http://a", "colour": "blue"}}}', "hosts.a.colour"),
        ('{"schema": "hawkeye.hosts/1", "hosts": {"a": {"ssh": "-oX", "token": "secret"}}}', "no SSH target"),
        (
            '{"schema": "hawkeye.hosts/1", "hosts": {"a": {"url": "http://A/", "token": "secret"}}}',
            "must be written http://a",
        ),
        (b"\xff\xfe", "utf-8"),
    ],
)
def test_a_damaged_file_is_told_of_and_left_as_it_is(config, text, why):
    config.parent.mkdir()
    damaged = text if isinstance(text, bytes) else text.encode()
    config.write_bytes(damaged)
    for change in (registry.read, lambda: registry.add("a", Host(url="http://a")), lambda: registry.remove("a")):
        with pytest.raises(DamagedRegistry) as found:
            change()
        assert why in str(found.value)
        assert f"mv {config} {config}.bad" in str(found.value)
        assert "secret" not in str(found.value)
    assert config.read_bytes() == damaged


def test_an_unknown_host_is_told_with_the_nearest():
    with pytest.raises(UnknownHost, match="None is registered: `hawkeye hosts add"):
        registry.find("tpu")
    with pytest.raises(UnknownHost, match="No host is registered"):
        registry.find("all")
    registry.add("tpu-1", Host(url="http://a"))
    for find in (registry.find, registry.remove):
        with pytest.raises(UnknownHost, match="no host 'tpu-l'. Did you mean tpu-1\\?"):
            find("tpu-l")
    with pytest.raises(UnknownHost, match="no host 'all'"):
        registry.find("tpu-1,all")
    with pytest.raises(UnknownHost, match="' , ' names no host. Registered: tpu-1"):
        registry.find(" , ")


def test_a_linked_file_stays_a_link(config, tmp_path):
    kept = tmp_path / "dotfiles.json"
    config.parent.mkdir()
    config.symlink_to(kept)
    registry.add("a", Host(url="http://a"))
    assert config.is_symlink()
    assert "http://a" in kept.read_text()


def test_a_folder_that_cannot_be_written_is_told_of(monkeypatch):
    monkeypatch.setenv("HAWKEYE_CONFIG", "/proc/nothing")
    with pytest.raises(registry.RegistryError, match="HAWKEYE_CONFIG names another folder"):
        registry.add("a", Host(url="http://a"))


def test_processes_that_change_it_at_the_same_time_lose_nothing(config):
    adders = [
        subprocess.Popen([sys.executable, "-c", ADDER, f"p{number}", "20"], stdout=subprocess.PIPE)
        for number in range(4)
    ]
    for adder in adders:
        assert adder.communicate()[0] == b"done\n"
    expected = {f"p{adder}-{number}" for adder in range(4) for number in range(20) if number % 5 != 4}
    assert set(registry.read()) == expected
    assert [path.name for path in config.parent.iterdir() if path.name.endswith(".part")] == []


def test_what_a_newer_server_says_of_itself_beyond_our_fields_is_left_out():
    told = {"versions": FACTS.machine.versions.model_dump() | {"mosaic": "5"}, "tpus": [], "cpus": 1, "disk": 7}
    found = Health.model_validate_json(json.dumps(told | {"running": 1, "queued": 2}))
    assert (found.load, found.versions) == (3, FACTS.machine.versions)
