"""Rows of a ledger that were never run: for lists of many."""

# Spread over a year, ten causes of which six are ok, four runtimes, a thousand quests.
NUMBERS = {
    "sqlite": "WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < {n} - 1)",
    "postgresql": "WITH s AS (SELECT * FROM generate_series(0::bigint, {n} - 1) AS g(i))",
}
TIME = {
    "sqlite": "strftime('%Y-%m-%dT%H:%M:%S.000Z', 1700000000 + i * 31536000 / {n}, 'unixepoch')",
    "postgresql": "to_char(to_timestamp(1700000000 + i * 31536000 / {n}) AT TIME ZONE 'UTC',"
                  " 'YYYY-MM-DD\"T\"HH24:MI:SS\".000Z\"')",
}
ID = {"sqlite": "printf('s%09d', i)", "postgresql": "'s' || lpad(i::text, 9, '0')"}
CAUSES = ["ok"] * 6 + ["exit", "oom", "deadline", "lost"]
RUNTIMES = ["base", "single-cell", "variants", "notebook"]


def one_of(by, words):
    cases = " ".join(f"WHEN {at} THEN '{word}'" for at, word in enumerate(words))
    return f"CASE {by} {cases} END"


# As the program keeps them: rows that it did not enter itself are in no sum.
TOTALS = """DELETE FROM run_totals; INSERT INTO run_totals SELECT home, kind, subject, cause, count(*), sum(wall_usec), sum(cpu_usec),
    sum(memory_gib_hours), max(memory_peak_bytes), min(accepted), max(accepted), 0 FROM run_shares GROUP BY home, kind, subject, cause"""


def fill_sql(kind, n):
    values = f"""(SELECT home FROM homes), {ID[kind]}, {TIME[kind]}, {TIME[kind]}, {TIME[kind]}, 'synthetic',
        'quest-' || (i % 1000), {one_of('i / 7 % 4', RUNTIMES)}, {one_of('i % 10', CAUSES)}, 0,
        'The analysis succeeded in 1 ms, with a peak of 512.0 KiB of memory.', '{{{{}}}}', '', '{{{{}}}}', 1000, 900,
        524288, '', '', ''"""
    columns = """home, id, accepted, started, ended, name, quest, runtime, cause, exit_status, notes, evidence,
        missing_layers, labels, wall_usec, cpu_usec, memory_peak_bytes, verdict_sha256, chain, record"""
    return f"INSERT INTO runs ({columns}) {NUMBERS[kind]} SELECT {values} FROM s".format(n=n)
