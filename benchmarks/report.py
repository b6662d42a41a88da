"""`make bench-report`: tables and pictures for docs/benchmarks.md from the file of results. Runs nothing."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.bars import bars_table
from benchmarks.cases import DELTA, OTHERS
from benchmarks.engines import ENGINES, OURS, OURS_DV, RUST, RUST_PRUNING, SPARK, SPARK_DV
from benchmarks.lines import Record, geometric_mean, median, ratio, table_line
from benchmarks.merge import FOLDER, RESULTS, read
from benchmarks.pictures import bars, lines
from benchmarks.rounds import ON_CONNECT
from benchmarks.suites import GROWTH_ROWS, growth
from benchmarks.tables import LOG

DOCS = Path(__file__).resolve().parents[1] / "docs"
BEGIN, END = "<!-- results: written by `make bench-report` -->", "<!-- end of results -->"
COLOURS = {
    OURS: "#2f81f7",
    SPARK: "#e8833a",
    RUST: "#3fa34d",
    RUST_PRUNING: "#8a9a2b",
    OURS_DV: "#5b5bd6",
    SPARK_DV: "#d1495b",
}
Column = tuple[str, Callable[[Record], str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=FOLDER / RESULTS)
    parser.add_argument(
        "--page", type=Path, default=DOCS / "benchmarks.md", help="the page whose part between two marks is written"
    )
    given = parser.parse_args()
    records = read(given.results)
    if not records:
        raise SystemExit(f"no results in {given.results}: run python -m benchmarks.merge first")
    pictures = given.page.parent / "images"
    pictures.mkdir(exist_ok=True)
    text = "\n".join(line.rstrip() for line in report(list(records.values()), pictures))
    page = given.page.read_text(encoding="utf-8") if given.page.exists() else ""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2] or "\n"
    given.page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
    print(f"wrote {given.page} and {len(list(pictures.glob('*.svg')))} pictures")


def report(records: Sequence[Record], pictures: Path) -> list[str]:
    """The page's lines; the pictures are written. What was measured for growth alone counts for no bar."""
    groups = _groups(records)
    others = [record for record in records if record["kind"] != "merge" or record["shape"]["layout"] == "log"]
    found = [*_head(records), *bars_table([*(record for group in groups.values() for record in group), *others])]
    for (rows, layout), group in groups.items():
        found += _merges(rows, layout, group, pictures)
    found += _memory([record for record in records if record["kind"] == "memory"])
    found += _connect([record for record in records if record["kind"] == "connect"])
    return found + _growth({record["key"]: record for record in records}, pictures)


def _head(records: Sequence[Record]) -> list[str]:
    last = max(records, key=lambda record: float(record["at"]))
    versions = next((record["versions"] for record in reversed(records) if "versions" in record), {})
    names = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    loads = [float(record["load"]) for record in records]
    counts = [
        len(found["seconds"])
        for record in records
        for found in record["engines"].values()
        if isinstance(found.get("seconds"), list)
    ]
    rounds = f"; {' to '.join(str(number) for number in sorted({min(counts), max(counts)}))} rounds" if counts else ""
    return [f"{last['cores']} cores{rounds}; load average {min(loads):.1f} to {max(loads):.1f}; {names}.", ""]


def _groups(records: Sequence[Record]) -> dict[tuple[int, str], list[Record]]:
    """The records of merges by the table's rows and layout, large tables first; those that are for growth alone left out."""
    found: dict[tuple[int, str], list[Record]] = {}
    cases = {case.name: case for case in (*DELTA, *OTHERS)}
    for record in records:
        shape, case = record["shape"], cases.get(record["case"])
        plain = case is not None and shape["files"] in (case.files, LOG.files) and shape["columns"] == 24
        if record["kind"] == "merge" and plain:
            layout = "clustered" if shape["layout"] == "partitioned" else shape["layout"]
            found.setdefault((shape["rows"], layout), []).append(record)
    shown = [pair for pair in found.items() if len(pair[1]) > 1]
    return dict(sorted(shown, key=lambda pair: (pair[0][1] == "log", -pair[0][0], pair[0][1])))


def _merges(rows: int, layout: str, records: Sequence[Record], pictures: Path) -> list[str]:
    what = "A log of 100,000 files" if layout == "log" else f"{rows:,} rows, {layout}"
    picture = pictures / f"ratios-{rows}-{layout}.svg"
    shown = {
        record["case"]: {name: times for name in (SPARK, RUST, RUST_PRUNING, SPARK_DV) if (times := ratio(record, name))}
        for record in records
    }
    note = "times as long as deltamerge takes on the same kind of table, logarithmic"
    picture.write_text(bars(what, {case: values for case, values in shown.items() if values}, COLOURS, note), encoding="utf-8")
    rewriting: list[Column] = [
        ("deltamerge", _seconds(OURS)),
        *(c for name in (SPARK, RUST, RUST_PRUNING) for c in _against(name)),
    ]
    marking: list[Column] = [("deltamerge", _seconds(OURS_DV)), *_against(SPARK_DV)]
    costs: list[Column] = [(name, _cost(name)) for name in (OURS, SPARK, RUST, OURS_DV, SPARK_DV)]
    floors = [float(record["floor"]) for record in records if "floor" in record]
    floor = f"An empty `mapInArrow` job takes {statistics.median(floors):.3f} s." if floors else ""
    return [
        *(f"### {what}", f"![{what}](images/{picture.name})", "", floor, ""),
        *("Copied on write: median seconds; how many times deltamerge's; in brackets of its CPU seconds.", ""),
        *(*_table(records, rewriting, (SPARK, RUST, RUST_PRUNING)), ""),
        *("With deletion vectors:", "", *_table(records, marking, (SPARK_DV,)), ""),
        *("CPU seconds, MB written, Spark jobs:", "", *_table(records, costs, ()), ""),
    ]


def _table(records: Sequence[Record], columns: Sequence[Column], means: Sequence[str]) -> list[str]:
    lines = [f"| merge | {' | '.join(name for name, _ in columns)} |", f"|---|{'---|' * len(columns)}"]
    for record in records:
        failed = "**the engines disagree**: " if "disagree" in record else ""
        lines.append(f"| {failed}{record['case']} | {' | '.join(show(record) for _, show in columns)} |")
    if means and len(records) > 1:
        for name, summary in (("geometric mean", geometric_mean), ("least", _least)):
            cells = [""]
            for engine in means:
                values = [times for record in records if (times := ratio(record, engine))]
                cells += ["", f"**{_number(summary(values))}**"]
            lines.append(f"| **{name}** | {' | '.join(cells)} |")
    return lines


def _least(values: Sequence[float]) -> float | None:
    return min(values, default=None)


def _against(engine: str) -> list[Column]:
    def times(record: Record) -> str:
        found, cpu = ratio(record, engine), ratio(record, engine, "cpu")
        return f"{_number(found)} ({_number(cpu)})" if found else "-"

    return [(engine.partition(",")[0] if engine == SPARK_DV else engine, _seconds(engine)), ("ratio", times)]


def _seconds(engine: str) -> Callable[[Record], str]:
    def show(record: Record) -> str:
        found = record["engines"].get(engine, {})
        if "error" in found:
            return f"fails: {found['error'][:60]}".replace("|", "/")
        middle = median(record, engine)
        return "-" if middle is None else f"{middle:.2f} ({min(found['seconds']):.2f}-{max(found['seconds']):.2f})"

    return show


def _cost(engine: str) -> Callable[[Record], str]:
    def show(record: Record) -> str:
        cpu, written, jobs = (median(record, engine, what) for what in ("cpu", "bytes", "jobs"))
        if cpu is None or written is None:
            return "-"
        return f"{cpu:.2f} s, {written / 2**20:.1f} MB" + ("" if jobs is None else f", {jobs:.0f}")

    return show


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _memory(records: Sequence[Record]) -> list[str]:
    if not records:
        return []

    def peak(name: str) -> Callable[[Record], str]:
        def show(record: Record) -> str:
            found = record["engines"].get(name, {})
            if "peak" not in found:
                return f"fails: {found.get('error', '')[:40]}"
            return f"{found['peak']:,.0f} ({found['before']:,.0f}, {found['worker']:,.0f})"

        return show

    head = (
        "Peak memory of the whole process tree in MB, in brackets before the merge, and of the largest Python worker; "
        "a process per merge, driver memory 4 GB."
    )
    columns: list[Column] = [(name, peak(name)) for name in ENGINES]
    return ["### Memory", head, "", f"{table_line(records[0])}:", "", *_table(records, columns, ()), ""]


def _connect(records: Sequence[Record]) -> list[str]:
    if not records:
        return []

    def pair(engine: str) -> list[Column]:
        def times(record: Record) -> str:
            return _number(ratio(record, f"{engine}{ON_CONNECT}", against=engine))

        return [(engine, _seconds(engine)), ("on Connect", _seconds(f"{engine}{ON_CONNECT}")), ("ratio", times)]

    head = "Seconds of the same merge in a classic session and on Spark Connect, rounds alternating, two processes."
    return [
        "### Spark Connect",
        head,
        "",
        f"{table_line(records[0])}:",
        "",
        *_table(records, [*pair(OURS), *pair(OURS_DV)], ()),
        "",
    ]


def _growth(records: Mapping[str, Record], pictures: Path) -> list[str]:
    found: list[str] = []
    for axis, series in growth(GROWTH_ROWS).items():
        known = [(place, records[point.key]) for place, point in series if point.key in records]
        curves = {
            engine: [(place, seconds) for place, record in known if (seconds := median(record, engine)) is not None]
            for engine in ENGINES
        }
        curves = {engine: points for engine, points in curves.items() if points}
        if len(known) < 2 or not curves:
            continue
        title = (
            f"{known[0][1]['case']}: time against {axis}" if "percent" not in axis else f"upsert, all files: time against {axis}"
        )
        picture = pictures / f"growth-{axis.split()[0]}.svg"
        picture.write_text(
            lines(title, curves, COLOURS, axis, "seconds", [name for name in curves if "vectors" in name]), encoding="utf-8"
        )
        found += [f"![{title}](images/{picture.name})", ""]
    return ["### Growth", "Seconds, both axes logarithmic; dashed with deletion vectors.", "", *found] if found else []


if __name__ == "__main__":
    main()
