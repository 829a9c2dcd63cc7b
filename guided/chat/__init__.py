"""Chat templates: a conversation becomes the text and the tokens that a model was trained on."""

from guided.chat.conversation import DEFAULT_TOOL_STYLE, Conversation, Message
from guided.chat.template import ChatTemplate

__all__ = ["DEFAULT_TOOL_STYLE", "ChatTemplate", "Conversation", "Message"]
