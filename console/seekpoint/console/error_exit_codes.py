"""Map each error class to the exit code of a command that fails with it."""

from __future__ import annotations

from seekpoint.console.exit_codes import EXIT_FAULT, EXIT_REFUSED, EXIT_UNREACHABLE, EXIT_USAGE
from seekpoint.schemas import errors
from seekpoint.schemas.errors import SeekpointError

_EXIT_CODES: dict[type[SeekpointError], int] = {
    SeekpointError: EXIT_FAULT,
    errors.Retryable: EXIT_UNREACHABLE,
    errors.ClaimLost: EXIT_REFUSED,
    errors.HandleLost: EXIT_REFUSED,
    errors.GroupLost: EXIT_UNREACHABLE,
    errors.Refused: EXIT_REFUSED,
    errors.UnserializableValue: EXIT_USAGE,
    errors.InvalidValue: EXIT_USAGE,
    errors.RecordedValueInvalid: EXIT_REFUSED,
    errors.InvalidName: EXIT_USAGE,
    errors.UnknownProcess: EXIT_FAULT,
    errors.UnknownAttachment: EXIT_FAULT,
    errors.UnknownConnector: EXIT_USAGE,
    errors.InvalidOption: EXIT_USAGE,
    errors.InvalidSetting: EXIT_USAGE,
    errors.ProcessDegraded: EXIT_REFUSED,
    errors.ReplayDivergence: EXIT_REFUSED,
    errors.BudgetExceeded: EXIT_REFUSED,
    errors.EffectUnknown: EXIT_REFUSED,
    errors.EffectRefused: EXIT_REFUSED,
    errors.ObligationStuck: EXIT_REFUSED,
    errors.FoldUnavailable: EXIT_REFUSED,
    errors.AppendRefused: EXIT_REFUSED,
    errors.ViewRefused: EXIT_REFUSED,
}
"""The code of each class and of its subclasses that are not listed themselves."""


def exit_code_of(kind: type[SeekpointError]) -> int:
    """Return the exit code of an error class: its own, or that of its nearest listed base.

    >>> exit_code_of(errors.JournalUnavailable), exit_code_of(errors.UnknownProcess)
    (3, 1)
    """
    return next(_EXIT_CODES[base] for base in kind.__mro__ if base in _EXIT_CODES)
