"""Many verdicts at once: this machine's cores, or a cluster later.

- `job`: Job, and its four ends that are never mixed: Judged, Faulted, Lost, Unusable.
- `executor.Executor`: what carries jobs out; `local.LocalExecutor` does it on this machine.
- `run.run_many`: a stream of jobs to a stream of ends; resumes (`log`) and remembers (`cache`).
"""
