"""Nothing but words: who imports this is told what does its work here."""

from baton.absent import refuse_module

refuse_module(__name__)
