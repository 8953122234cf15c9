"""Files of tables: what is wrong with one is said in one sentence, and nothing else happens."""

import subprocess
import sys
import textwrap

READS = """
    import sys
    from pathlib import Path
    from sooner.data.tables import files as sources
    from sooner.errors import InvalidArgument

    # A thread of the reader that still wants Python at the end would have to wait for it so long that it always meets the end.
    sys.setswitchinterval(1)
    for name in sys.argv[1:]:
        try:
            sources.CsvFile(Path(name))
        except InvalidArgument as error:
            sys.stderr.write(f"{error}\\n")
    sys.exit(2)
"""


def test_a_bad_row_in_any_encoding_is_a_sentence_and_the_process_ends_in_peace(tmp_path, monkeypatch):
    # pyarrow printed a traceback where the row was no UTF-8, and aborted the process in about half of the runs.
    monkeypatch.chdir(tmp_path)
    rows = "series,time,label,x\n" + "a,1,b,0.5\n" * 9
    (tmp_path / "latin.csv").write_bytes((rows + "a,2,caf\xe9,0.5,7\n").encode("latin-1"))
    (tmp_path / "long.csv").write_text(rows + "a,2,b,0.5,7\n")
    command = [sys.executable, "-c", textwrap.dedent(READS), "latin.csv", "long.csv"]
    # Four at once on two cores: alone, such a process met its end in time, and only a busy machine showed the fault.
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = "must be a table of 4 cells a row, got 5 at row 10. Check that line for a missing or extra separator."
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert errors.splitlines() == [f"`latin.csv` {said}", f"`long.csv` {said}"]
        assert process.returncode == 2
