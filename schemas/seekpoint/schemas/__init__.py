"""Entries and their meaning: vocabulary, codec, fold, the ports of the log, settings. Nothing here uses the network.

The words, each with one meaning everywhere:

journal
    a named set of topics: ``NAME.journal``, ``NAME.checkpoints``, ``NAME.schemas``, ``NAME.nodes``, ...
process
    one agent process, named by ``process_id``; all its entries have that Kafka key, so one partition, so one order
entry
    one fact in the journal; Kafka's "record" and "message" are used only inside the Kafka modules
owner / epoch
    the node that may append as the process; the epoch counts owners
seq
    the owner's entry number in its process: 1, 2, 3, ... without a gap, across owners
external entry
    one appended by somebody who is not the owner (claim, signal, cancel): no seq, an id of its own
acknowledged / confirmed / fenced
    in the log / applied by the fold / acknowledged, but by an owner that had lost the process
fold
    the pure function (state, offset, entry) -> state; every reader uses this one
recovery
    seek point + tail -> state, with a report of what it cost
message
    an item of a conversation (role, content, tool calls)
dead letter
    a poison record, kept with its bytes and coordinates
gravestone
    the small state a finished process keeps for ever

>>> from seekpoint.schemas import Entry, bodies, fold, new_id, new_state
>>> claim = Entry(new_id(), "case-17", None, 0, None, None, 0, None, None, None, bodies.Claim(0, "node-1"))
>>> state = fold(new_state(), 0, claim)
>>> state.epoch, state.owner == claim.id, state.lifecycle
(1, True, <Lifecycle.CREATED: 'created'>)
"""

from typing import TYPE_CHECKING

from seekpoint.schemas import bodies, errors, folds
from seekpoint.schemas.bodies import BODIES, KINDS, Body
from seekpoint.schemas.bodies.entry import Entry, id_text, new_id, process_key
from seekpoint.schemas.config.limits import DEFAULT_LIMITS, Limits
from seekpoint.schemas.config.settings import Settings
from seekpoint.schemas.errors import SeekpointError
from seekpoint.schemas.folding.fold import Verdict, advance, fold
from seekpoint.schemas.late_names import late_names
from seekpoint.schemas.log.log_ports import LogReader, LogWriter
from seekpoint.schemas.log.manifest import FORMAT, MANIFEST_KEY, Manifest, schema_key
from seekpoint.schemas.log.partition import partition_of
from seekpoint.schemas.state.conversation import Conversation, Message
from seekpoint.schemas.state.lifecycle import TRANSITIONS, Lifecycle
from seekpoint.schemas.state.process_state import FOLD_VERSION, State, new_state
from seekpoint.schemas.values.attachment_ref import Ref
from seekpoint.schemas.wire.codec import SCHEMA_FINGERPRINT, Codec, encode, schema_json

if TYPE_CHECKING:
    from seekpoint.schemas.log.memory_log import MemoryLog
else:  # loaded at first use
    __getattr__, __dir__ = late_names(__name__, {"MemoryLog": "seekpoint.schemas.log.memory_log"})

__all__ = [
    "BODIES",
    "DEFAULT_LIMITS",
    "FOLD_VERSION",
    "FORMAT",
    "KINDS",
    "MANIFEST_KEY",
    "SCHEMA_FINGERPRINT",
    "TRANSITIONS",
    "Body",
    "Codec",
    "Conversation",
    "Entry",
    "Lifecycle",
    "Limits",
    "LogReader",
    "LogWriter",
    "Manifest",
    "MemoryLog",
    "Message",
    "Ref",
    "SeekpointError",
    "Settings",
    "State",
    "Verdict",
    "advance",
    "bodies",
    "encode",
    "errors",
    "fold",
    "folds",
    "id_text",
    "new_id",
    "new_state",
    "partition_of",
    "process_key",
    "schema_json",
    "schema_key",
]
