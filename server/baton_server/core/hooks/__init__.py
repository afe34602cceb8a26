"""Hooks: what programs are asked, by which ids, and what their answers mean. Pure; records nothing.

    names      ids of questions: they follow from the turn, so that every process asks the same ones
    question   one question: its kind, what it asks, how its answer is read
    answers    answers by kind
    packing    answers that are lists of items, as the log keeps them

Payloads and answers are JSON objects as text (PROTOCOL.md §6). An answer of the wrong shape is an AnswerError; a
field that is not known here is passed over.
"""
