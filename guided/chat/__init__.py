"""Chat templates, which turn a conversation into the text and tokens that the model was trained on."""

from guided.chat.conversation import DEFAULT_TOOL_STYLE, Conversation, Message
from guided.chat.derived_style import derive_tool_style
from guided.chat.template import ChatTemplate

__all__ = ["DEFAULT_TOOL_STYLE", "ChatTemplate", "Conversation", "Message", "derive_tool_style"]
