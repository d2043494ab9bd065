"""README's program does what it says; its commands are run by tests/install."""

import re
from pathlib import Path

from tests.interop.broker_process import REPOSITORY
from tests.tutorials.reader import Reader, programs_of_this_python


def test_the_first_program_prints_its_order(tmp_path: Path) -> None:
    """It sends and receives one message."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    program, *_ = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    page = tmp_path / "page.md"
    page.write_text(
        f"""In a terminal of its own:

```console
$ artemis-py run
...
ready
```

Save it as `first.py`:

```python
{program}```

```console
$ python first.py
order 1
```
""",
        encoding="utf-8",
    )

    with Reader(tmp_path, programs_of_this_python(tmp_path / "bin")) as reader:
        reader.follow(page)
