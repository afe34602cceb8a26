"""A filter that changes what the model is sent: the newest items, and the instructions as they were."""

from baton import Agent, CallModelData, ModelInputData, RunConfig, Runner


def only_the_newest(data: CallModelData[None]) -> ModelInputData:
    trimmed = data.model_data.input[-5:]
    return ModelInputData(input=trimmed, instructions=data.model_data.instructions)


agent = Agent(name="Guide", instructions="Be short.")
result = Runner.run_sync(
    agent,
    "What is a palindrome?",
    run_config=RunConfig(call_model_input_filter=only_the_newest),
)
print(result.final_output)
