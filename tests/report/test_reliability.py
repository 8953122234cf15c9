"""The card of a report that compares probabilities with the share of right decisions."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from sooner.evaluate import reliability
from sooner.report import Evaluation, report_page, write_report

RNG = np.random.default_rng(0)
SHARES = RNG.dirichlet([1.0, 1.0, 1.0], 80)
LABELS = RNG.integers(0, 3, 80)


def evaluation(found):
    return Evaluation(torch.from_numpy(np.log(SHARES)[:, None]), torch.from_numpy(LABELS), 1.0, reliability=found)


@pytest.fixture(scope="module")
def drawing():
    """The card's figure as XML."""
    page = report_page(evaluation(reliability(SHARES, LABELS)))
    return ElementTree.fromstring(re.search(r"<svg viewBox.*?</svg>", page)[0])


def test_every_bin_with_series_is_a_point_at_its_probability_and_its_accuracy(drawing):
    found = reliability(SHARES, LABELS)
    points = list(drawing.iter("circle"))
    assert len(points) == np.count_nonzero(found.counts)
    told = [tuple(map(float, re.findall(r"\d\.\d+", point[0].text)[:2])) for point in points]
    filled = found.counts > 0
    np.testing.assert_allclose(told, np.stack([found.confidence, found.accuracy], axis=1)[filled], atol=6e-4)


def test_a_perfect_bin_lies_on_the_diagonal():
    found = reliability([[0.75, 0.25]] * 4, [0, 0, 0, 1])
    page = report_page(evaluation(found))
    x, y = (float(re.search(rf'class="bin"[^>]* {axis}="([\d.]+)"', page)[1]) for axis in ("cx", "cy"))
    low, high = re.search(r'class="ideal" d="M([\d. ]+)L([\d. ]+)"', page).groups()
    (x0, y0), (x1, y1) = (map(float, end.split()) for end in (low, high))
    assert (x - x0) / (x1 - x0) == pytest.approx((y - y0) / (y1 - y0), abs=1e-3)


def test_the_card_says_what_was_measured_and_is_absent_without_it():
    found = reliability(SHARES, LABELS)
    assert f"<b>{100 * found.error:.1f}&nbsp;%</b>, the log loss {found.log_loss:.3f}, on 80 series" in report_page(
        evaluation(found)
    )
    assert "reliability-title" not in report_page(evaluation(None))


def test_the_figure_is_written_beside_the_others(tmp_path):
    names = [path.name for path in write_report(tmp_path, evaluation(reliability(SHARES, LABELS))).figures]
    assert "reliability.png" in names
    assert (tmp_path / "reliability.png").read_bytes().startswith(b"\x89PNG")
