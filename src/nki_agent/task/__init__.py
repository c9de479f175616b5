"""One task: its reference, inputs, tolerance, comparison, target and hash.

- `loader.load_task`: a Python file to a Task. `form` states how the parts of the file are found.
- `task`: the records: Task, ShapeSet, TensorArgument, StaticArgument, Output, Work.
- `trial`: make_trials, Trial.inputs, expected (the float64 reference), compare_outputs.
- `comparison`: compare, Comparison, Mismatch; `pattern` guesses the Cause of a wrong output.
- `lint.lint_task`: whether a task is fit to judge kernels by; `subject`: Check, LintFinding.
- `tolerance`: ToleranceClass, Tolerance, tolerance_for; `family`: Family, FamilyScale.
- `description.describe_task`: the task in words.

Nothing here imports PyTorch before a task file needs it.
"""
