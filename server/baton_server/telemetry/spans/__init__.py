"""The spans of a turn, made of its events.

ids          which ids they have
facts        what they say
writing      one span: begun, ended, over an error
runs         agents, rounds and generations of a run
calls        functions and handoffs
guardrails   guardrails
turn         the whole, event by event
"""
