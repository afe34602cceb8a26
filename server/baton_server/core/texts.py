"""Sentences that the model is told in place of a function's output: ours to word, free to change."""

FUNCTION_FAILED = "The function failed before it gave a result. You may try again or go on without it."
"""For a crash, or when every worker was lost: says nothing of the cause, which may be private."""

CALL_CANCELLED = "The call was cancelled before it gave a result."
"""For a call that was open when its turn was cancelled."""

TIMED_OUT = "Tool '{name}' timed out after {seconds} seconds."
"""For a function that took longer than its timeout, where the agent has no words for it: the Agents SDK's."""

CALL_EXPIRED = "The call was not answered in time."
"""For a call whose expiry passed."""

CALL_AGAIN = "Correct them and call the function again."
"""Behind what was wrong with the arguments."""
