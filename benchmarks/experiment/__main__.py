"""`python -m benchmarks.experiment`."""

from benchmarks.experiment.carrying import main

main()
