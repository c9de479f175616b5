"""SFT and GRPO on the corpus, and the rewards that GRPO climbs.

- `outcome`: Outcome, what one attempt of training came to.
- `reward`: one function over an Outcome for each reward, and `find_reward` by name.
"""
