// Python bindings of `Grammar`: terminals and rules are returned as tuples and dictionaries.
#include "bind_grammar.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "bind_ebnf.hpp"
#include "bind_regex.hpp"
#include "grammar.hpp"

namespace guided::lark {
namespace {

nb::object to_python(const std::u32string& value) {
  return nb::steal(
      PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, value.data(), static_cast<Py_ssize_t>(value.size())));
}

nb::object width_of(const std::optional<Width>& width) {
  if (!width) return nb::none();
  return nb::make_tuple(width->low, width->high == kUnbounded ? nb::none() : nb::object(nb::int_(width->high)));
}

ImportedText open_import(const nb::callable& open, const Import& import) {
  nb::list path;
  for (const std::string& part : import.path) path.append(part);
  nb::dict aliases;
  for (const auto& [name, alias] : import.aliases) aliases[name.c_str()] = alias;
  const auto imported = nb::cast<nb::tuple>(open(nb::tuple(path), import.is_relative, aliases, import.importer));
  return {nb::cast<int32_t>(imported[0]), characters(imported[1])};
}

nb::object make_result(const Grammar& grammar, const Patterns& patterns) {
  nb::list terminals, ignored, locations;
  for (const auto& [name, pattern, priority, is_named] : grammar.terminals) {
    const std::string flag(pattern.flag != 0 ? 1 : 0, pattern.flag);
    terminals.append(nb::make_tuple(name, to_python(pattern.regexp()), pattern.is_text, priority,
                                    to_python(pattern.value), flag, to_python(pattern.raw), is_named,
                                    width_of(patterns.width_if_known(pattern))));
  }
  for (const std::string& name : grammar.ignored) ignored.append(name);
  for (const auto& [name, written_name, text, span] : grammar.defined_names)
    locations.append(nb::make_tuple(name, written_name, text, nb::make_tuple(span.begin, span.end)));
  return nb::make_tuple(terminals, named_rules(grammar.ebnf, grammar.rules), ignored, locations);
}

nb::object read_grammar(const nb::str& text, const nb::str& start, PythonAlphabet& alphabet,
                        const std::pair<int32_t, int64_t>& limits, const nb::callable& name_of,
                        const nb::callable& python_width_of, const nb::callable& open) {
  const Patterns patterns(alphabet, {limits.first, limits.second}, [&](const std::u32string& pattern) {
    const auto width = nb::cast<nb::tuple>(python_width_of(to_python(pattern)));
    return Width{nb::cast<int64_t>(width[0]), width[1].is_none() ? kUnbounded : nb::cast<int64_t>(width[1])};
  });
  const Loader loader{
      patterns,
      limits.first,
      [&](const std::u32string& value) { return nb::cast<std::string>(name_of(to_python(value))); },
      [&](const Import& import) { return open_import(open, import); },
  };
  try {
    return make_result(Grammar(loader, characters(text), nb::cast<std::string>(start)), patterns);
  } catch (const NotHandled&) {
    return nb::none();
  } catch (const nb::python_error& error) {  // from a function that Python passed
    if (!error.matches(PyExc_Exception)) throw;
    return nb::none();
  }
}

}  // namespace

void bind_grammar(nb::module_& m) {
  m.def("read_grammar", &read_grammar, nb::arg("text"), nb::arg("start"), nb::arg("alphabet"), nb::arg("limits"),
        nb::arg("name_of"), nb::arg("width_of"), nb::arg("open"),
        nb::sig("def read_grammar(text: str, start: str, alphabet: Alphabet, limits: tuple[int, int], "
                "name_of: typing.Callable[[str], str], width_of: typing.Callable[[str], tuple[int, int | None]], "
                "open: typing.Callable[[tuple[str, ...], bool, dict[str, str], int], tuple[int, str]]) -> "
                "tuple[list[tuple[str, str, bool, int, str, str, str, bool, tuple[int, int | None] | None]], "
                "dict[str, list[tuple[tuple[str, bool], ...]]], list[str], "
                "list[tuple[str, str, int, tuple[int, int]]]] | None"),
        R"(A grammar in Lark's notation: its terminals, rules, ignored terminals, and the locations of its definitions.

A terminal is its name, expression, whether it is a string, its priority, value, flag, its literal as written or "",
whether the grammar defines or declares it (otherwise it is a literal in a rule), and its width if that is known. A
location is a name, the name as written, the number of the text, and the span.

None: the Python code has to read it, see `native/grammar.hpp`.

Args:
    limits: bounds for the depth of brackets and the nodes of a pattern, as in `Limits`.
    name_of: the name that Lark prefers for the terminal of a string, or "".
    width_of: the least and greatest length of the texts of a pattern; None for no limit.
    open: the number and text of an imported file. Its arguments are the path, whether it is relative, the imported
        names with their new names, and the number of the importing text, which is 0 for the first.)");
}

}  // namespace guided::lark
