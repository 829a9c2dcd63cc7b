// The Python bindings. Python passes the IR once, node by node. Later calls pass only an object, integers and a buffer.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "python/bindings.hpp"

namespace nb = nanobind;

namespace guided {

namespace {

// Sets the Python error to guided.errors.<name>(*args, **kwargs), or to the exception that creating it raises, such as
// KeyboardInterrupt.
void raise(const char* name, nb::args args, nb::kwargs kwargs = nb::kwargs()) {
  try {
    nb::object type = nb::module_::import_("guided.errors").attr(name);
    nb::object error = type(*args, **kwargs);
    PyErr_SetObject(type.ptr(), error.ptr());
  } catch (nb::python_error& error) {
    error.restore();
  }
}

void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const LimitFailure& e) {
    raise("LimitExceeded",
          nb::borrow<nb::args>(nb::make_tuple(e.limit, e.given, e.allowed, !e.advice.empty(), e.advice, e.rule)));
  } catch (const EmptyLanguage& e) {
    raise("SpecError", nb::borrow<nb::args>(nb::make_tuple(e.what())));
  } catch (const Unsupported& e) {
    nb::kwargs location;
    location["pointer"] = e.rule;
    raise("UnsupportedError", nb::borrow<nb::args>(nb::make_tuple(e.what())), location);
  } catch (const VocabularyFailure& e) {
    raise("VocabularyError", nb::borrow<nb::args>(nb::make_tuple(e.what())));
  } catch (const BudgetFailure& e) {
    raise("BudgetError", nb::borrow<nb::args>(nb::make_tuple(e.needed, e.given)));
  }
}

}  // namespace

}  // namespace guided

NB_MODULE(_core, m) {
  m.doc() =
      "The native core: grammars are compiled into automata, and matchers follow outputs and fill token bitmasks.\n\n"
      "Its objects are opaque; `guided.matching` has the classes that users call.";
  // A grammar in a global variable outlives the interpreter, which is not a leak.
  nb::set_leak_warnings(false);
  nb::register_exception_translator(guided::translate);
  guided::bind_compiled(m);
  guided::bind_builder(m);
  guided::bind_node_reader(m);
  guided::bind_stored_grammar(m);
  guided::bind_matcher(m);
  guided::bind_batch(m);
  guided::bind_composed(m);
  guided::bind_lexer(m);
#ifdef GUIDED_FAULTS
  m.def("arm_fault", &guided::arm_fault, nb::arg("n"),
        "Make the n-th allocation or limit check from now on fail; n < 0: none. Returns the number of allocations and "
        "limit checks since the last call.");
#endif
}
