"""`nki-agent train`: SFT and GRPO on the corpus, and merging an adapter."""

from __future__ import annotations

import importlib
import importlib.util
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from nki_agent.agent.ablation import PromptKind
from nki_agent.agent.episode import Mode
from nki_agent.base.clock import SystemClock
from nki_agent.base.errors import UsageError
from nki_agent.base.jsonl import append_line
from nki_agent.base.writing import new_folder, path_error, writing
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.ablating import PROMPT_HELP
from nki_agent.cli.command import ExitCode, guard, make_group
from nki_agent.cli.inputs import JSON_HELP, TARGET_HELP, read_target
from nki_agent.cli.screen import say, show, show_json
from nki_agent.farm.local import LocalExecutor
from nki_agent.train.config import GenerationPart, GrpoConfig, ModelPart, SftConfig, read_config
from nki_agent.train.folder import TrainingFolder, alone_in, is_first_process, open_folder
from nki_agent.train.shelf import Shelf

PACKAGES = ("torch", "transformers", "trl", "peft", "datasets", "accelerate", "matplotlib")
OUT_HELP = "The run's folder; the same config goes on in it. By default a new one under `runs`."
DRY_HELP = "Load no weights: say what would be trained and what each GPU needs, then stop."
FITS_HELP = "(exit 1 where it does not fit)"
CONFIG_HELP = "A TOML file; docs/reference/train-config.md has every key."

Config = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help=CONFIG_HELP)]
Out = Annotated[Path | None, typer.Option(metavar="DIR", help=OUT_HELP)]
DryRun = Annotated[bool, typer.Option("--dry-run", help=f"{DRY_HELP} {FITS_HELP}")]
REMEMBER_HELP = "Replies of its own that the model reads again; all if left out."
RETRY_HELP = "Of replies after the first; as --temperature where not given."
AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which tasks an evaluation is about."""

    split: str
    tasks: int
    target: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How an evaluation goes on after a verdict."""

    temperature: float
    remembered: int | None
    """Replies that the model reads again; all if None."""


app = make_group(
    "Train a model to write kernels: on dialogues, then by what the judge says of its own."
)


@app.command()
def sft(
    config: Config, *, out: Out = None, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Fine-tune on dialogues; a run that was stopped goes on."""
    guard(_sft)(config, out, dry_run=dry_run, as_json=as_json)


@app.command()
def grpo(
    config: Config, *, out: Out = None, dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Improve a model by its own attempts; a run that was stopped goes on."""
    guard(_grpo)(config, out, dry_run=dry_run, as_json=as_json)


@app.command()
def merge(
    model: Annotated[
        Path, typer.Argument(metavar="DIR", help="A run's folder, or one with an adapter.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder for the weights.")],
) -> None:
    """Add an adapter to the weights that it was trained on, for `--model hf/OUT` and servers."""
    guard(_merge)(model, out)


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(metavar="DIR", help="A model's folder, or a run's.")],
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="A corpus folder.")],
    *,
    split: Annotated[str, typer.Option(help="Of the corpus.")] = "test",
    tasks: Annotated[int, typer.Option(min=1, help="How many of the split, by chance.")] = 100,
    mode: Annotated[Mode, typer.Option(help="The loop, or a single shot.")] = Mode.SINGLE_SHOT,
    prompt: Annotated[PromptKind, typer.Option(help=PROMPT_HELP)] = PromptKind.SHORT,
    turns: Annotated[int, typer.Option(min=1, help="Replies in the loop.")] = 10,
    reply_tokens: Annotated[int, typer.Option(min=1, help="Of each reply, at most.")] = 1024,
    temperature: Annotated[float, typer.Option(min=0.0, help="0: the likeliest tokens.")] = 0.0,
    retry_temperature: Annotated[float | None, typer.Option(min=0.0, help=RETRY_HELP)] = None,
    remember: Annotated[int | None, typer.Option(min=1, help=REMEMBER_HELP)] = None,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    seed: Annotated[int, typer.Option(min=0, help="Which tasks, draws and inputs.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A file for a JSON line of each task.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a model on a corpus's split: drawn in this process, many tasks at once."""
    generation = GenerationPart(
        mode=mode,
        prompt=prompt,
        turns=turns,
        reply_tokens=reply_tokens,
        completion_tokens=reply_tokens * turns,
        temperature=temperature,
        tools="verify",
    )
    guard(_evaluate)(
        model,
        corpus,
        generation,
        choice=Choice(split=split, tasks=tasks, target=target, seed=seed),
        retries=Retries(
            temperature=temperature if retry_temperature is None else retry_temperature,
            remembered=remember,
        ),
        out=out,
        as_json=as_json,
    )


@app.command()
def verl(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="A corpus folder.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.parquet", help="A new file.")],
    *,
    split: Annotated[str, typer.Option(help="Of the corpus.")] = "train",
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
) -> None:
    """Write a corpus's tasks as rows for verl, to train on a Ray cluster."""
    guard(_verl)(corpus, out, split=split, target=target)


def _sft(path: Path, out: Path | None, *, dry_run: bool, as_json: bool) -> ExitCode:
    config = read_config(path, SftConfig)
    require_packages()
    if dry_run:
        _note_missing(Path(config.data.path))
        return _plan(config, tokens=config.batch * config.data.max_tokens, as_json=as_json)
    module = importlib.import_module("nki_agent.train.sft")
    module.require_ready(config)
    clock = SystemClock()
    folder = open_folder(config, kind="sft", subject=path.stem, out=out, clock=clock)
    # Its processes start with the first kernel that is judged.
    with LocalExecutor(clock=clock) as executor:
        return _train(
            folder,
            lambda: module.run_sft(config, folder, executor=executor, clock=clock),
            as_json=as_json,
        )


def _grpo(path: Path, out: Path | None, *, dry_run: bool, as_json: bool) -> ExitCode:
    config = read_config(path, GrpoConfig)
    require_packages()
    if dry_run:
        _note_missing(Path(config.tasks))
        tokens = config.batch * config.generation.completion_tokens
        return _plan(config, tokens=tokens, as_json=as_json)
    module = importlib.import_module("nki_agent.train.grpo")
    module.require_ready(config)
    clock = SystemClock()
    folder = open_folder(config, kind="grpo", subject=path.stem, out=out, clock=clock)
    with LocalExecutor(workers=config.judge_workers or None, clock=clock) as executor:
        return _train(
            folder,
            lambda: module.run_grpo(config, folder, executor=executor, clock=clock),
            as_json=as_json,
        )


def _train(folder: TrainingFolder, run: Any, *, as_json: bool) -> ExitCode:
    """Run it, unless it is done, and show what it came to."""
    if folder.is_done:
        say(f"{folder.path} is done already; give another `--out` to train anew")
    elif is_first_process():
        with alone_in(folder):
            try:
                run()
            except BaseException as error:
                if (checkpoint := folder.find_checkpoint()) is not None:
                    where = f"{checkpoint.name} is kept in {folder.path}"
                    error.add_note(f"{where}: the same command goes on from it")
                raise
    else:
        run()
    if not is_first_process():
        return ExitCode.RIGHT
    summary = msgspec.json.decode(folder.summary.read_bytes())
    if as_json:
        show_json(summary)
        return ExitCode.RIGHT
    for name, value in summary.items():
        if isinstance(value, dict):
            for measure, number in value.items():
                show(f"{measure:<26}{number:.4g}")
        else:
            show(f"{name:<26}{value:,}")
    show(f"{'model':<26}{folder.model}")
    return ExitCode.RIGHT


def _note_missing(path: Path) -> None:
    """A dry run needs no data, and often comes first."""
    if not path.exists():
        say(f"note: the data of this config, {path}, is not there yet; a run needs it")


def _plan(config: SftConfig | GrpoConfig, *, tokens: int, as_json: bool) -> ExitCode:
    weights = importlib.import_module("nki_agent.train.weights")
    fit = importlib.import_module("nki_agent.train.fit")
    found = fit.measure(
        weights.load_outline(config.model),
        lora=config.lora,
        hardware=config.hardware,
        plan=fit.Plan(tokens=tokens),
    )
    if as_json:
        record = {
            "parameters": found.parameters,
            "trainable": found.trainable,
            "parts_gib": found.parts_gib,
            "total_gib": found.total_gib,
            "limit_gib": found.limit_gib,
            "fits": found.fits,
        }
        show_json(record)
    else:
        show(fit.write_fit(found))
    if found.fits:
        return ExitCode.RIGHT
    say(
        f"error: a GPU has {found.limit_gib:g} GiB\n  hint: a smaller `batch` with a larger"
        ' `accumulate`, `gradient_checkpointing = true`, or more `gpus` with `shard = "fsdp2"`'
    )
    return ExitCode.NOT_RIGHT


def _merge(model: Path, out: Path) -> ExitCode:
    require_packages()
    folder = model / "model" if (model / "model").is_dir() else model
    module = importlib.import_module("nki_agent.train.weights")
    arguments = importlib.import_module("nki_agent.train.arguments")
    remedy = "merge it on a machine with more memory"
    with new_folder(out, hint="name a new folder"), arguments.guard_memory(remedy):
        module.merge_folder(folder, out)
    say(f"merged into {out}: `nki-agent bench run --model hf/{out}` measures it")
    return ExitCode.RIGHT


def _evaluate(
    path: Path,
    corpus: Path,
    generation: GenerationPart,
    *,
    choice: Choice,
    retries: Retries,
    out: Path | None,
    as_json: bool,
) -> ExitCode:
    require_packages()
    module, weights, benches, writer, arguments = (
        importlib.import_module(f"nki_agent.train.{name}")
        for name in ("evaluate", "weights", "benches", "writer", "arguments")
    )
    part = ModelPart(path=str(path / "model" if (path / "model").is_dir() else path))
    weights.require_model(part)
    part = msgspec.structs.replace(part, dtype=weights.find_dtype(Path(part.path)))
    target = read_target(choice.target)
    if out is not None:
        # Known before an hour has been spent; and two evaluations never mix.
        require_new(out)
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalExecutor() as executor,
        arguments.guard_memory("give fewer `--reply-tokens`, or a smaller model"),
    ):
        shelf = Shelf(corpus, folder=Path(folder))
        rows = module.choose(shelf.list_split(choice.split), choice.tasks, seed=choice.seed)
        template = weights.load_template(part)
        way = benches.make_way(generation, template, target=target, remembered=retries.remembered)
        model = weights.load_model(part)
        weights.require_vocabulary(model, way.template)
        bench = benches.make_bench(
            model,
            way,
            temperatures=writer.Temperatures(
                first=generation.temperature, later=retries.temperature
            ),
            seed=choice.seed,
            executor=executor,
            clock=SystemClock(),
        )
        tried = []
        for one in module.evaluate(rows, bench, shelf, seed=choice.seed):
            tried.append(one)
            say(f"{len(tried)} of {len(rows)}  {one.task}  {one.stage or 'no kernel'}")
            if out is not None:
                append_line(out, one)
        shelf.close()
    shares = module.sum_up(tried)
    if as_json:
        show_json(msgspec.to_builtins(shares))
        return ExitCode.RIGHT
    for name in ("compiled", "right"):
        share = getattr(shares, name)
        show(f"{name:<9}{share.value:6.1%}  [{share.low:.1%}, {share.high:.1%}]")
    show(f"of {shares.tasks} tasks of the split `{choice.split}`")
    return ExitCode.RIGHT


def _verl(corpus: Path, out: Path, *, split: str, target: str) -> ExitCode:
    require_packages()
    module = importlib.import_module("nki_agent.train.verl")
    datasets = importlib.import_module("datasets")
    chosen = read_target(target)
    require_new(out)
    with tempfile.TemporaryDirectory() as folder:
        shelf = Shelf(corpus, folder=Path(folder))
        rows = list(
            module.make_rows(
                shelf.take_all(shelf.list_split(split)),
                target=chosen,
                baselines=shelf.find_baselines(chosen.value),
                mode=Mode.SINGLE_SHOT,
            )
        )
        shelf.close()
    with writing(out):
        datasets.Dataset.from_list(rows).to_parquet(str(out))
    say(f"{len(rows)} rows in {out}")
    return ExitCode.RIGHT


def require_new(path: Path) -> None:
    """See that a file can be written that is not there yet.

    Raises:
        UsageError: it is there, or cannot be made.
    """
    try:
        path.open("x").close()
        path.unlink()
    except FileExistsError as error:
        raise UsageError(f"{path} is there already", hint="name a new file") from error
    except OSError as error:
        raise path_error(f"write `{path}`", error) from error


def require_packages() -> None:
    """See that the training stack is installed.

    Raises:
        UsageError: it is not.
    """
    # Libraries must not send anything anywhere, nor look for anything.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"training needs {', '.join(missing)}",
            hint="in the checkout: `make setup`, or pip install '.[train]'",
        )
