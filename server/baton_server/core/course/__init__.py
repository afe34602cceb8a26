"""The course of a turn: what each of its runs does next, told from the state alone, before and after a crash alike.

    opening     what a run begins with: a caller's store, a merge of history and input, guardrails
    rounds      the request of a round, and what the model's reply is
    tools       each call of a reply, until it has given something: approval, its turn, guardrails
    results     what a call gave, and what the model is told of it
    nested      runs of agents as tools
    handoffs    who goes on
    finishing   the final output: its form, what stands in for an error, guardrails
    ending      how runs end
    move        the whole: what a turn owes, and all that can be done at once

A stage looks at where a run stands (`Here`) and says one of three things: a move to be made now (it records events),
what the run waits for (commands; none: for the outside), or None: it has nothing to say, and the next stage is asked.
"""
