"""Parses policies as users write them."""

from __future__ import annotations

import pytest

from kigen.schedule import PolicyError, PolicySettings, read_policy


def test_a_name_alone_has_the_usual_settings() -> None:
    assert read_policy("pack") == ("pack", PolicySettings())


def test_settings_follow_a_colon() -> None:
    name, settings = read_policy("ats1:kp=0.5,ki=20, phi=50ms,k=3,reading=window,window=2s,fixed=90000us,rule=muf")
    assert name == "ats1"
    assert (settings.kp, settings.ki, settings.phi_us, settings.k, settings.reading) == (
        0.5,
        20.0,
        50_000.0,
        3,
        "window",
    )
    assert (settings.window_us, settings.fixed_us, settings.rule) == (2_000_000.0, 90_000.0, "muf")


def test_salvage_looks_ahead_by_buffers_of_its_own() -> None:
    assert read_policy("salvage") == ("salvage", PolicySettings())
    assert read_policy("salvage:ahead=2")[1].ahead == 2.0


def test_policies_over_slices_have_settings_of_their_own() -> None:
    name, settings = read_policy("admandf:beta=0.1,ahead=400,period=1s,length=800ms")
    assert name == "admandf"
    assert (settings.beta, settings.ahead, settings.period_us, settings.length_us) == (
        0.1,
        400.0,
        1_000_000.0,
        800_000.0,
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("best", "no policy 'best': write one of all, fifo"),
        ("pack:speed=3", "has no setting 'speed': the settings are phi"),
        ("ats:phi=3", "phi must be a time such as 100ms"),
        ("ats:phi=0ms", "phi must be a time"),
        ("ats:kp=high", "kp must be a number, not 'high'"),
        ("ats:k=0", "k must be 1 or more"),
        ("ats:reading=tea", "no reading 'tea': write one of"),
        ("pack:overload", "no overload ''"),
        ("mandf:beta=-1", "beta must be 0 or more"),
        ("mandf:beta=7", "beta is a share, so it must be 1 or less, not 7"),
        ("pack:protected=1.5", "protected is a share"),
        ("mqt:length=soon", "length must be a time such as 100ms"),
    ],
)
def test_what_cannot_be_says_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(PolicyError, match=hint):
        read_policy(text)
