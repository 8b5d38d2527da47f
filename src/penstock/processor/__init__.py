"""What users implement: Processor, FixedKeyProcessor, their contexts, punctuation and timers."""

from penstock.processor.base import FixedKeyProcessor, Processor, ValueTransformer
from penstock.processor.context import FixedKeyProcessorContext, ProcessorContext, TransformerContext
from penstock.processor.emitter import EmitterContext
from penstock.processor.fixed_key import FixedKeyRecord
from penstock.processor.punctuation import Cancellable, PunctuationQueue, PunctuationType
from penstock.processor.timers import TimerService

__all__ = [
    "Cancellable",
    "EmitterContext",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "FixedKeyRecord",
    "Processor",
    "ProcessorContext",
    "PunctuationQueue",
    "PunctuationType",
    "TimerService",
    "TransformerContext",
    "ValueTransformer",
]
