"""Estimates effects with statsmodels and scipy: cases as JSON on standard input, estimates on
standard output. Nothing of docgauge's own code is used."""

import json
import sys
import warnings

import numpy as np
import statsmodels.api as sm
from scipy.optimize import nnls
from statsmodels.tsa.statespace.structural import UnobservedComponents

warnings.simplefilter("ignore")


def weighted(case):
    """The mean expected after the merge by weights that are exact: least squares with a
    ridge, not negative, whose sum a heavy row holds at 1."""
    before, y, x = case["before"], np.array(case["series"]), np.array(case["donors"]).T
    level, n, ridge = y[:before].mean(), x.shape[1], case["ridge"]
    heavy = 1e4
    rows = np.vstack([x[:before] / np.sqrt(before), np.sqrt(ridge) * np.eye(n), heavy * np.ones((1, n))])
    target = np.concatenate([y[:before] / level / np.sqrt(before), np.sqrt(ridge) / n * np.ones(n), [heavy]])
    w, _ = nnls(rows, target, maxiter=10000)
    return float((x[before:] @ w).mean() * level)


def structural(case):
    """The model of CausalImpact (Brodersen and others 2015) by maximum likelihood: a local
    level, and a regression on the mean of the untouched pages; in logarithms."""
    before = case["before"]
    y = np.log(np.array(case["series"]) + 0.5)
    x = np.log(np.array(case["donors"]).mean(axis=0))
    fit = UnobservedComponents(y[:before], level="llevel", exog=x[:before]).fit(disp=False)
    forecast = fit.get_forecast(len(y) - before, exog=x[before:, None]).predicted_mean
    return float(np.expm1((y[before:] - forecast).mean()))


def level(case):
    """A level for each weekday, a trend and a change: quasi-Poisson."""
    before, y, date = case["before"], np.array(case["series"]), np.array(case["date"])
    x = np.column_stack([date % 7 == d for d in range(7)] + [(date - date.mean()) / 28, np.arange(len(y)) >= before])
    fit = sm.GLM(y, x.astype(float), family=sm.families.Poisson()).fit(scale="X2")
    return {"change": float(fit.params[-1]), "deviation": float(fit.bse[-1])}


json.dump(
    [{"weighted": weighted(c), "structural": structural(c), "level": level(c)} for c in json.load(sys.stdin)], sys.stdout
)
