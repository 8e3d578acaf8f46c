"""A run's folder as bytes and back: the same on the other side, and nothing else gets out of a parcel."""

import io
import os
import stat
import tarfile

import pytest
from hawkeye_bench import runs
from hawkeye_bench.executors import parcel
from hawkeye_bench.executors.parcel import BadParcel
from hawkeye_bench.order import RunKey

KEY = RunKey("8p_GEMM", "none", 2)
LINK = "../../../workspaces/0123456789ab"


@pytest.fixture
def done(tmp_path):
    """A run as a worker leaves it, in a folder of runs of its own."""
    out = tmp_path / "there"
    folder = KEY.folder(out)
    for name in ("home/deep", "state", "kernels"):
        (folder / name).mkdir(parents=True)
    workspace = runs.make_workspace(out, folder)
    (folder / "run.json").write_bytes(b"{}")
    (folder / "state" / "pool.sqlite3").write_bytes(bytes(range(256)))
    (folder / "home" / "deep" / "log \u00e9.txt").write_text("a log")
    (workspace / "kernel.py").write_text("a kernel")
    (workspace / "build.sh").write_text("a script")
    (workspace / "build.sh").chmod(0o755)
    return folder


def contents(out):
    """Every path below a run's folder, and of its workspace as the link shows it, with what is there."""
    folder = KEY.folder(out)
    found = {}
    for root, _, files in os.walk(folder, followlinks=True):
        for name in files:
            path = folder / root / name
            found[str(path.relative_to(folder))] = (path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR))
        found[f"{os.path.relpath(root, folder)}/"] = None
    return found


def test_a_run_arrives_as_it_was_and_its_link_leads_to_its_workspace(done, tmp_path):
    packed, left_out = parcel.pack(done)
    here = tmp_path / "here"
    parcel.deliver(packed, here, KEY)
    assert left_out == []
    assert contents(here) == contents(tmp_path / "there")
    assert contents(here)["workspace/build.sh"] == (b"a script", True)
    assert contents(here)["home/deep/log \u00e9.txt"] == (b"a log", False)
    assert (KEY.folder(here) / "workspace").readlink() == (done / "workspace").readlink()
    assert sorted(path.name for path in here.iterdir()) == ["8p_GEMM", "arriving", "workspaces"]
    assert not list((here / "arriving").iterdir())


def test_links_and_pipes_of_an_agent_are_left_out_and_named(done, tmp_path):
    (done / "home" / "password").symlink_to("/etc/passwd")
    (done / "workspace" / "folder").symlink_to("/etc")
    os.mkfifo(done / "workspace" / "pipe")
    packed, left_out = parcel.pack(done)
    assert left_out == [
        "run/home/password (no plain file)",
        "workspace/folder (no plain file)",
        "workspace/pipe (no plain file)",
    ]
    parcel.deliver(packed, tmp_path / "here", KEY)
    assert "home/password" not in contents(tmp_path / "here")


def test_a_second_name_of_a_file_is_a_file_too(done, tmp_path):
    os.link(done / "run.json", done / "worked.json")
    parcel.deliver(parcel.pack(done)[0], tmp_path / "here", KEY)
    assert contents(tmp_path / "here")["worked.json"] == contents(tmp_path / "here")["run.json"] == (b"{}", False)


def test_what_an_agent_left_beyond_the_size_stays_behind_and_records_never_do(done, tmp_path):
    (done / "workspace" / "large").write_bytes(bytes(10_000))
    packed, left_out = parcel.pack(done, largest_bytes=5_000)
    assert left_out == ["workspace/large (10000 bytes)"]
    parcel.deliver(packed, tmp_path / "here", KEY, largest_bytes=5_000)
    (done / "transcript.jsonl").write_bytes(bytes(10_000))
    with pytest.raises(BadParcel, match=r"records are larger than 5000 bytes; run/transcript.jsonl is too much"):
        parcel.pack(done, largest_bytes=5_000)


def test_a_run_that_was_cut_off_here_is_set_aside(done, tmp_path):
    here = tmp_path / "here"
    KEY.folder(here).mkdir(parents=True)
    (KEY.folder(here) / "calls.jsonl").write_text("of the first try")
    parcel.deliver(parcel.pack(done)[0], here, KEY)
    assert not (KEY.folder(here) / "calls.jsonl").exists()
    assert (KEY.folder(here).with_name("2.unfinished-1") / "calls.jsonl").read_text() == "of the first try"


def test_of_a_run_whose_work_was_complete_here_only_the_judgement_is_new(done, tmp_path):
    (done / "worked.json").write_bytes(b"worked")
    here = tmp_path / "here"
    parcel.deliver(parcel.pack(done)[0], here, KEY)
    mine = KEY.folder(here)
    (mine / "run.json").unlink()
    (mine / "calls.jsonl").write_text("as it was")
    (done / "judged_again.json").write_bytes(b"judged")
    (done / "calls.jsonl").write_text("changed")
    parcel.deliver(parcel.pack(done)[0], here, KEY)
    found = {name: (mine / name).read_text() for name in ("run.json", "judged_again.json", "calls.jsonl")}
    assert found == {"run.json": "{}", "judged_again.json": "judged", "calls.jsonl": "as it was"}
    assert not list(here.rglob("*.unfinished-*"))
    assert len(list((here / "workspaces").iterdir())) == 1


def entry(name, kind=tarfile.REGTYPE, link="", data=b""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data)
    return info, data


def packed(*entries):
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz") as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return found.getvalue()


GOOD = entry("run/workspace", tarfile.SYMTYPE, LINK)
BAD = {
    "no workspace": [entry("run/run.json")],
    "an absolute path": [GOOD, entry("/tmp/evil")],
    "a way out": [GOOD, entry("run/../../evil")],
    "beside the run": [GOOD, entry("other/evil")],
    "the place itself": [GOOD, entry("run")],
    "a link": [GOOD, entry("run/link", tarfile.SYMTYPE, "/etc/passwd")],
    "a hard link": [GOOD, entry("run/run.json"), entry("run/link", tarfile.LNKTYPE, "run/run.json")],
    "a device": [GOOD, entry("run/null", tarfile.CHRTYPE)],
    "a pipe": [GOOD, entry("workspace/pipe", tarfile.FIFOTYPE)],
    "a link elsewhere": [entry("run/workspace", tarfile.SYMTYPE, "../../../../elsewhere")],
    "a workspace with another name": [entry("run/workspace", tarfile.SYMTYPE, "../../../workspaces/../../evil")],
    "a folder for the link": [GOOD, entry("run/workspace", tarfile.DIRTYPE)],
    "below the link": [GOOD, entry("run/workspace/evil")],
    "a file twice": [GOOD, entry("run/run.json"), entry("run/run.json")],
    "too much": [GOOD, *(entry(f"run/{n}", data=bytes(300)) for n in range(4))],
}


@pytest.mark.parametrize("what", BAD)
def test_anything_else_in_a_parcel_is_refused_and_nothing_of_it_stays(what, tmp_path):
    here = tmp_path / "here"
    with pytest.raises(BadParcel):
        parcel.deliver(packed(*BAD[what]), here, KEY, largest_bytes=1_000)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["arriving", "here"]


def test_a_parcel_that_was_cut_off_is_refused(done, tmp_path):
    (done / "state" / "noise").write_bytes(os.urandom(50_000))
    whole = parcel.pack(done)[0]
    for bad in (whole[: len(whole) // 2], b"", b"no parcel at all"):
        with pytest.raises(BadParcel, match="cannot be unpacked"):
            parcel.deliver(bad, tmp_path / "here", KEY)
    assert not KEY.folder(tmp_path / "here").exists()
