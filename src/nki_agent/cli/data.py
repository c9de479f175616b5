"""`nki-agent data …`: training tasks, their verified solutions, and trajectories made of them."""

from __future__ import annotations

from nki_agent.cli.command import make_group
from nki_agent.cli.data_build import data_build
from nki_agent.cli.data_lint import data_lint
from nki_agent.cli.data_sample import sample
from nki_agent.cli.data_solve import solve
from nki_agent.cli.data_stats import data_stats
from nki_agent.cli.data_trajectories import trajectories
from nki_agent.cli.data_verify import verify

app = make_group("Training tasks, their verified solutions, and trajectories made of them.")


app.command("build")(data_build)
app.command("stats")(data_stats)
app.command("solve")(solve)
app.command("trajectories")(trajectories)
app.command("sample")(sample)
app.command("verify")(verify)
app.command("lint")(data_lint)
