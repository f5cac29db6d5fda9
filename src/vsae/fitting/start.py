"""`Start`: a fit from which another one goes on, with more rows or for longer.

What the weights read stays as they learned to read it: kinds and levels, units, features of numbers. How columns go
together linearly is pooled over old and new rows. All that is fitted around the networks (trees, calibration,
mechanism, prior) is fitted anew, to the rows at hand.
"""

from __future__ import annotations

from dataclasses import dataclass

from vsae.data.schema import Schema
from vsae.fitting.fitted import FittedVSAE
from vsae.model.config import VSAEConfig
from vsae.model.vsae import VSAE

_RATE = 0.3  # of the peak learning rate: to go on, not to start over
#: Settings that may change from fit to fit; the others shape the networks, which stay.
_OF_TRAINING = (
    "steps", "epochs", "batch_size", "learning_rate", "weight_decay", "schedule", "warmup", "clip", "validation",
    "validation_share", "validation_remask", "evaluate_every", "patience", "tolerance", "refit", "trees", "shrinkage",
    "latent_draws",
)  # fmt: skip


@dataclass(frozen=True)
class Start:
    """`rows`: that it has seen and that are not given again; 0: they are, or no longer count."""

    fitted: FittedVSAE
    rows: int = 0

    def config(self, asked: VSAEConfig) -> VSAEConfig:
        """The networks of the start, to be trained as asked, in one round."""
        return self.fitted.model.config.replace(rounds=1, **{name: getattr(asked, name) for name in _OF_TRAINING})

    def gentle(self, config: VSAEConfig) -> VSAEConfig:
        return config.replace(learning_rate=config.learning_rate * _RATE)

    def model(self, schema: Schema, config: VSAEConfig) -> VSAE:
        """A copy of its networks."""
        model = VSAE(schema, config)
        model.load_state_dict(self.fitted.model.state_dict())
        return model

    def share(self, rows: int) -> float:
        """Of so many new rows among all."""
        return rows / (rows + self.rows)
