"""The numbers the paper prints, as read from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Column = tuple[str, str]


def _by_column(columns: Sequence[Column], rows: Mapping[str, Sequence[float]]) -> dict[str, dict[Column, float]]:
    return {name: dict(zip(columns, values, strict=True)) for name, values in rows.items()}


#: Table 1, MCAR .5. Columns: (data set, measure).
MCAR = _by_column(
    (
        ("phishing", "pfc"), ("mushroom", "pfc"), ("yeast", "nrmse"), ("whitewine", "nrmse"),
        ("heart", "pfc"), ("heart", "nrmse"),
    ),
    {
        "AE": (0.348, 0.556, 0.737, 0.3772, 0.514, 0.650),
        "VAE": (0.274, 0.470, 0.461, 0.3724, 0.485, 0.630),
        "CVAE": (0.241, 0.445, 0.445, 0.3726, 0.516, 0.605),
        "MVAE": (0.308, 0.586, 0.442, 0.3732, 0.517, 0.636),
        "HI-VAE": (0.238, 0.470, 0.429, 0.3720, 0.481, 0.603),
        "VSAE paper": (0.237, 0.416, 0.419, 0.3719, 0.482, 0.579),
    },
)  # fmt: skip

#: Table 2, NRMSE. Columns: (data set, mechanism).
OTHERS: dict[str, dict[Column, float]] = {
    "MIWAE": {
        ("yeast", "paper-mar"): 0.475, ("yeast", "paper-nmar"): 0.456,
        ("whitewine", "paper-mar"): 0.3834, ("whitewine", "paper-nmar"): 0.3723,
    },
    "VSAE paper": {
        ("yeast", "paper-mar"): 0.472, ("yeast", "paper-nmar"): 0.425,
        ("whitewine", "paper-mar"): 0.3825, ("whitewine", "paper-nmar"): 0.3717,
    },
}  # fmt: skip

#: The share missing in 100 masks the paper's model sampled, with the share in its data: MCAR over all data sets.
MASKS: dict[Column, tuple[float, float]] = {
    ("", "mcar0.3"): (0.3, 0.312),
    ("", "mcar0.5"): (0.5, 0.496),
    ("", "mcar0.7"): (0.7, 0.692),
    ("whitewine", "paper-mar"): (0.626, 0.631),
    ("yeast", "paper-mar"): (0.676, 0.665),
    ("whitewine", "paper-nmar"): (0.502, 0.513),
    ("yeast", "paper-nmar"): (0.583, 0.592),
}

#: Table 4, NRMSE. Columns: (data set, mechanism). Names as in `methods.PAPER_CHANGES`; "" is the whole model.
ABLATION = _by_column(
    [(table, how) for how in ("mcar", "paper-mar", "paper-nmar") for table in ("yeast", "whitewine")],
    {
        "collective only": (0.426, 0.3730, 0.480, 0.3837, 0.427, 0.3737),
        "attributive only": (0.457, 0.3728, 0.493, 0.3827, 0.434, 0.3729),
        "no mask model": (0.418, 0.3720, 0.485, 0.3834, 0.437, 0.3724),
        "no EM": (0.426, 0.3723, 0.476, 0.3821, 0.432, 0.3727),
        "EM, 1 sample": (0.433, 0.3719, 0.473, 0.3825, 0.426, 0.3721),
        "EM, 1000 samples": (0.418, 0.3718, 0.471, 0.3826, 0.424, 0.3716),
        "": (0.419, 0.3719, 0.472, 0.3825, 0.425, 0.3717),
    },
)

#: The multi-modal table, half of the cells missing. Columns: (data set, attribute).
MULTIMODAL = _by_column(
    (
        ("mnist+mnist", "digit1"), ("mnist+mnist", "digit2"), ("fashion", "image"), ("fashion", "label"),
        ("mosi", "text"), ("mosi", "audio"), ("mosi", "vision"),
    ),
    {
        "AE": (0.1077, 0.1070, 0.1105, 0.366, 0.035, 0.224, 0.019),
        "VAE": (0.0734, 0.0682, 0.0885, 0.411, 0.034, 0.202, 0.017),
        "CVAE": (0.0733, 0.0679, 0.0887, 0.412, 0.043, 0.257, 0.020),
        "MVAE": (0.0760, 0.0802, 0.1402, 0.374, 0.44, 0.213, 0.025),
        "HI-VAE": (0.0772, 0.0725, 0.1575, 0.405, 0.047, 0.211, 0.0267),
        "VSAE paper": (0.0712, 0.0663, 0.0874, 0.356, 0.033, 0.200, 0.017),
    },
)  # fmt: skip
