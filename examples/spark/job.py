"""A job of `artemis-py spark` on a cluster: what spark-submit needs is a file.

spark-submit --master yarn job.py archive --address orders --subscription lake --out hdfs:///lake/msgs
"""

import sys

from artemis_py.cli import main

if __name__ == "__main__":
    main(["spark", *sys.argv[1:]])
