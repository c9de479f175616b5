"""SFT and GRPO of a small Qwen3-MoE from scratch, measured on held-out tasks: `make experiment`.

- `plan`: ExperimentPlan, every number of it.
- `choosing`: which tasks of a corpus train and which are held out.
- `material`: tokenizer, dialogues, the model that knows nothing.
- `stages`: the commands of one seed, each done once.
- `carrying`: one seed after the other; what `python -m benchmarks.experiment` does.
- `figures`, `page`: run folders → docs/results/experiment.md and its curves.
"""
