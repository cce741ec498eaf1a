"""Calls of library functions of a matrix become those for matrices of its structure, where that is known.

The library says which functions these are (`@form_of(solve, "diagonal")`); until here such calls have kept their names.
All others become the bodies of their functions, as `inline` makes of every call.

Before:
    graph.func @solve {entry = false, guards = [], params = ["a", "b"]} {
      ^(%a: tensor<[N, N], f32>, %b: tensor<[N], f32>):
        %x = graph.matmul(%a, %b) : tensor<[N], f32>
        graph.return(%x)
    }
    graph.func @solve_diagonal {entry = false, guards = [], params = ["d", "b"]} {
      ^(%d: tensor<[N], f32>, %b: tensor<[N], f32>):
        %x = graph.div(%b, %d) : tensor<[N], f32>
        graph.return(%x)
    }
    graph.func @f {entry = true, guards = [], params = ["b"]} {
      ^(%b: tensor<[K], f32>):
        %a = graph.eye() {columns = none, dtype = dtype<f32>, k = 0, policy = policy<>,
                          size = `K`} : tensor<[K, K], f32>
        %x = graph.call(%a, %b) {callee = "solve", dims = [["N", `K`]],
                                 forms = [["diagonal", "solve_diagonal", [["N", `K`]]]]} : tensor<[K], f32>
        graph.return(%x)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["b"]} {
      ^(%b: tensor<[K], f32>):
        %d = graph.full() {dtype = dtype<f32>, policy = policy<>, shape = [`K`], value = 1.0} : tensor<[K], f32>
        %x = graph.div(%b, %d) : tensor<[K], f32>
        graph.return(%x)
    }
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from tesserac.base.dataclass import dataclass
from tesserac.check.model.library_annotations import (
    APPLIED,
    BESIDE,
    INVERSE,
    POSITIVE,
    PRODUCT,
    RANK_ONE,
    TOGETHER,
    TURNED,
    UPDATE,
)
from tesserac.check.transforms.form_rules import COLUMNS
from tesserac.graph.algebra import applied
from tesserac.graph.algebra.applications import Spared
from tesserac.graph.algebra.applied import Use
from tesserac.graph.algebra.costs import Facts, beats, facts_of, is_open
from tesserac.graph.algebra.known import stands_before
from tesserac.graph.algebra.mapped import is_mapped
from tesserac.graph.algebra.structures import Structure, structures_of
from tesserac.graph.algebra.systems import joint_systems, matrix_of
from tesserac.graph.algebra.writing import TermWriter
from tesserac.graph.assert_attribution import library_name
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.dialect import AS, CALL, CUSTOM, FORMS, NUMERICS, expected_sizes, forms_of
from tesserac.graph.passes.algebra import Rewrite, erase_unused, kernels_of, rewrite_function
from tesserac.graph.passes.cse import merge_first_operands
from tesserac.graph.passes.inline import erase_unreached, inline_call, stays
from tesserac.graph.substitute import replace_op
from tesserac.ir.builder import Builder
from tesserac.ir.calls import named_dims
from tesserac.ir.core import Attr, Module, Op, Value
from tesserac.ir.effects import asserting_symbols
from tesserac.ir.forms import tensor_type
from tesserac.ir.func import guards
from tesserac.ir.ordering import ORDERED, order_effects
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ir.rewrite import erase_dead
from tesserac.ir.types import Type
from tesserac.ops.calculus import Writer
from tesserac.types.dims import ONE, Dim

BRANCHES = (UPDATE, RANK_ONE, POSITIVE)
"""Structures whose forms look at what they found, and solve the whole system where that is not enough."""
MAX_FORMS = 64
"""In one function: forms may call what has forms again, and each time parts are smaller."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """A form that was taken."""

    function: str
    op: Op
    called: str
    structure: str
    form: str
    cost: Dim
    whole: Dim
    facts: Facts


@dataclass(frozen=True, eq=False)
class Left:
    """A structure whose form was not taken, since it is cheaper for some sizes only."""

    function: str
    op: Op
    called: str
    structure: str
    cost: Dim
    whole: Dim


Observe = Callable[[Chosen | Left | Rewrite | Spared], None]


@pass_(GRAPH, GRAPH, "choose_forms")
def choose_forms(module: Module) -> Module:
    return by_structure(module, None)


def by_structure(module: Module, observe: Observe | None) -> Module:
    """The pass; `observe` is told of every form that was taken, or would be for some sizes."""
    functions = list(module.ops)
    if not any(op.name == CALL for function in functions for op in function.walk()):
        return module
    kernels = kernels_of(module)
    for function in functions:
        needed = [op for op in function.walk() if _is_applied(op) and op.results[0].uses]
        if function.symbol not in kernels and needed:
            rewrite_function(function, observe)
            _erase_undone(module, needed)
        _Chooser(module, function, observe).run()
    erase_unreached(module)
    while erase_dead(module):
        pass
    return module


def _erase_undone(module: Module, needed: Sequence[Op]) -> None:
    """Inverses that were needed until a law had none of them: nobody looks whether these matrices have one."""
    unused = [op for op in needed if op.parent is not None and not op.results[0].uses]
    asserting = asserting_symbols(module) if unused else ()
    for op in unused:
        if op.attrs["callee"] in asserting:
            op.erase()


def _is_applied(op: Op) -> bool:
    """Whether the order of products around a call decides what is computed: `inv(a) @ (b @ v)` has one system."""
    return op.name == CALL and APPLIED in forms_of(op)


class _Chooser:
    """Replaces the calls of one function."""

    def __init__(self, module: Module, function: Op, observe: Observe | None) -> None:
        self._module = module
        self._function = function
        self._observe = observe
        self._facts: Facts = facts_of(guards(function), expected_sizes(function))
        self._taken = 0
        self._right_sides: Mapping[Value, Sequence[Value]] = {}

    @cached_property
    def _asserting(self) -> frozenset[str]:
        """Looked for where it is asked: most functions have no inverse, and it takes a walk through the module."""
        return asserting_symbols(self._module)

    def run(self) -> None:
        merge_first_operands([op for op in self._calls() if forms_of(op)])
        self._settle()
        self._right_sides = _right_sides(self._function) | self._join_systems()
        while calls := self._calls():
            for op in reversed(calls):  # an inverse is looked at once what is applied to it is known
                if op.parent is not None:
                    self._resolve(op)

    def _settle(self) -> None:
        """Inverses become the systems that they stand for, of which those of one matrix are one elimination."""
        is_new = True
        while is_new and self._taken < MAX_FORMS:
            is_new = False
            for op in reversed(self._calls()):
                forms = forms_of(op)
                ways = (self._turned_back, self._of_inverse, self._of_factors, self._applied)
                if op.parent is not None and forms and any(way(op, forms) for way in ways):
                    self._taken += 1
                    is_new = True
            for op in [op for op in self._calls() if FORMS not in op.attrs]:
                self._written_out(op)

    def _calls(self) -> list[Op]:
        return [op for op in self._function.walk() if op.name == CALL]

    def _join_systems(self) -> dict[Value, Sequence[Value]]:
        """Of one matrix, where nothing makes them less than systems of a whole matrix. By matrix, the right side of all
        of them."""
        joined: dict[Value, Sequence[Value]] = {}
        calls = self._calls()
        readers = [op for op in calls if not {BESIDE, TOGETHER}.isdisjoint(forms_of(op))]
        systems = [op for op in readers if TOGETHER in forms_of(op) and self._is_whole(op)]
        modes = [str(op.attrs.get(NUMERICS)) for op in systems]
        for joint in list(joint_systems(systems, readers, modes)):
            first, form = joint.systems[0], forms_of(joint.systems[0])[TOGETHER]
            if not self._may_assert(first, form):
                continue
            for op in joint.systems:
                self._tell(op, Structure(TOGETHER, ()), forms_of(op))
            matrix = joint.at.operands[0]
            side = joint.right_side(_writer(joint.at, first))
            like = replace(tensor_type(matrix), dims=tensor_type(side).dims)
            [solved] = self._call(first, first, form, [matrix, side], {COLUMNS: joint.columns()}, [like])
            joint.take_apart(_writer(first, first), solved)
            joined[matrix] = [side]
        return joined

    def _is_whole(self, op: Op) -> bool:
        """Whether nothing else is known of a system: no structure of its matrix, nor what needs it."""
        forms = forms_of(op)
        if any(found.name in forms for found in structures_of(op, self._facts)):
            return False
        return not any(INVERSE in forms_of(user) for user, _ in op.results[0].uses)

    def _resolve(self, op: Op) -> None:
        forms = forms_of(op)
        ways = (self._turned_back, self._of_inverse, self._applied, self._by_structure, self._beside)
        if self._taken < MAX_FORMS and any(way(op, forms) for way in ways):
            self._taken += 1
        else:
            self._written_out(op)

    def _written_out(self, op: Op) -> None:
        callee = self._module.lookup(str(op.attrs["callee"]))
        if stays(op, callee):
            replace_op(op, CUSTOM, {name: value for name, value in op.attrs.items() if name != FORMS})
        else:
            inline_call(op, callee, self._function, _told(op, callee))

    def _by_structure(self, op: Op, forms: Mapping[str, Attr]) -> bool:
        found = structures_of(op, self._facts) if forms else ()
        return any(self._takes(op, forms, structure) for structure in found)

    def _takes(self, op: Op, forms: Mapping[str, Attr], found: Structure) -> bool:
        if found.name in BRANCHES and is_mapped(op, found.name):  # both would be computed for all
            return False
        if found.name not in forms or not self._may_take(op, forms, found):
            return False
        terms = TermWriter(_writer(op, op), tensor_type(op.operands[0]))
        parts = [terms.value(part) for part in found.parts]
        self._replace(op, op, forms[found.name], [*parts, *op.operands[1:]], dict(found.sizes))
        return True

    def _applied(self, op: Op, forms: Mapping[str, Attr]) -> bool:
        """A matrix that is only multiplied with something, or turned before that, is not made."""
        uses = applied.uses_of(op) if APPLIED in forms else ()
        if not uses or not all(applied.may_move(op, use.product, self._asserting) for use in uses):
            return False
        if not self._may_take(op, forms, Structure(uses[0].structure, (), (), *applied.costs(op, uses))):
            return False
        passes = any(applied.passed(op, use.product) for use in uses)
        turned = applied.transposes(op)
        for number, use in enumerate(uses):
            self._apply(op, use, forms, number)
        for gone in (*(use.product for use in uses), *turned, op):
            gone.erase()
        if passes:
            order_effects(self._module)
        return True

    def _apply(self, op: Op, use: Use, forms: Mapping[str, Attr], number: int) -> None:
        """A system in the place of one product. What the calls of several assert has places one after the other."""
        user, other = use.product, use.other
        is_vector = tensor_type(other).rank == 1
        write = _writer(user, op)
        if is_vector:
            other = write.reshape(other, (*tensor_type(other).dims, ONE))
        elif not use.on_left:
            other = write.permute(other, (1, 0))
        rows = tensor_type(op.result).dims[use.structure == TURNED]
        like = replace(tensor_type(other), dims=(rows, use.columns))
        operands = [op.operands[0], other, *op.operands[1:]]
        [result] = self._call(op, user, forms[use.structure], operands, {COLUMNS: use.columns}, [like], number)
        if is_vector:
            result = _writer(user, op).reshape(result, tensor_type(user.result).dims)
        elif not use.on_left:
            result = _writer(user, op).permute(result, (1, 0))
        user.result.replace_all_uses(result)

    def _of_inverse(self, op: Op, forms: Mapping[str, Attr]) -> bool:
        """An inverse that nobody else needs is not made. What its form asserts has the place of the inverse."""
        inverse = op.operands[0].defining_op
        if INVERSE not in forms or inverse is None or not _is_inverse_for(op, inverse, self._asserting):
            return False
        if not self._may_assert(inverse, forms[INVERSE]):
            return False
        self._tell(op, Structure(INVERSE, ()), forms)
        types, operands = [v.type for v in op.results], [inverse.operands[0], *op.operands[1:]]
        results = self._call(inverse, op, forms[INVERSE], operands, {}, types)
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses(new)
        op.erase()
        inverse.erase()
        return True

    def _turned_back(self, op: Op, forms: Mapping[str, Attr]) -> bool:
        """A determinant is that of the transpose: of a matrix and its transpose there is one elimination."""
        matrix, is_turned = matrix_of(op)
        if BESIDE not in forms or not is_turned:
            return False
        op.set_operand(0, matrix)
        return True

    def _of_factors(self, op: Op, forms: Mapping[str, Attr]) -> bool:
        """A product with an inverse, before that is one with a system of many columns."""
        product = op.operands[0].defining_op
        if PRODUCT not in forms or product is None or not _has_inverse(op.operands[0], turned=BESIDE in forms):
            return False
        found = structures_of(op, self._facts)
        is_taken = any(structure.name == PRODUCT and self._takes(op, forms, structure) for structure in found)
        if is_taken:
            erase_unused(product)  # so that nobody needs the inverse but its function
        return is_taken

    def _beside(self, op: Op, forms: Mapping[str, Attr]) -> bool:
        """What is eliminated beside the right side of a system is the system's own elimination: they are one then."""
        sides = self._right_sides.get(op.operands[0], ()) if BESIDE in forms else ()
        side = next((value for value in sides if stands_before(value, op)), None)
        if side is None or not self._may_assert(op, forms[BESIDE]):
            return False
        self._tell(op, Structure(BESIDE, ()), forms)
        if tensor_type(side).rank == 1:
            side = _writer(op, op).reshape(side, (*tensor_type(side).dims, ONE))
        sizes = {COLUMNS: tensor_type(side).dims[1]}
        self._replace(op, op, forms[BESIDE], [op.operands[0], side], sizes)
        return True

    def _may_take(self, op: Op, forms: Mapping[str, Attr], found: Structure) -> bool:
        if not self._may_assert(op, forms[found.name]):
            return False
        if not beats(found.cost, found.whole, self._facts):
            self._tell_left(op, found)
            return False
        self._tell(op, found, forms)
        return True

    def _may_assert(self, op: Op, form: Attr) -> bool:
        """What asserts needs a place in the order of effects, which the call has."""
        effects = self._module.lookup(_symbol(form)).attrs.get("effects", ())
        assert isinstance(effects, tuple)
        return all(effect in op.attrs for effect in effects)

    def _replace(self, op: Op, at: Op, form: Attr, operands: Sequence[Value], sizes: Mapping[str, Dim]) -> None:
        results = self._call(op, at, form, operands, sizes, [v.type for v in op.results])
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses(new)
        op.erase()

    def _call(
        self,
        op: Op,
        at: Op,
        form: Attr,
        operands: Sequence[Value],
        sizes: Mapping[str, Dim],
        types: Sequence[Type],
        number: int = 0,
    ) -> list[Value]:
        """The results of a form, called where `at` stands in the place of `op`, as one of several with a number; the
        call is replaced in its turn."""
        assert isinstance(form, tuple)
        dims = tuple((name, dim.substitute(sizes)) for name, dim in named_dims(form[2]).items())
        attrs: dict[str, Attr] = {"callee": _symbol(form), "dims": dims}
        attrs |= {name: op.attrs[name] for name in (NUMERICS, *ORDERED) if name in op.attrs}
        for effect in ORDERED if number else ():
            if isinstance(place := attrs.get(effect), tuple):
                attrs[effect] = (*place, number)
        attrs[AS] = _told(op, self._module.lookup(str(op.attrs["callee"])))
        return Builder.before(at).op(CALL, operands, types, attrs).results

    def _tell(self, op: Op, found: Structure, forms: Mapping[str, Attr]) -> None:
        if self._observe is not None:
            called, form = self._called(op), _symbol(forms[found.name])
            costs = (found.cost, found.whole, self._facts)
            self._observe(Chosen(self._function.symbol, op, called, found.name, form, *costs))

    def _tell_left(self, op: Op, found: Structure) -> None:
        if self._observe is not None and is_open(found.cost, found.whole, self._facts):
            self._observe(Left(self._function.symbol, op, self._called(op), found.name, found.cost, found.whole))

    def _called(self, op: Op) -> str:
        return _told(op, self._module.lookup(str(op.attrs["callee"]))) or ""


def _right_sides(function: Op) -> dict[Value, Sequence[Value]]:
    """By matrix, the right sides of its systems: what calls with forms have beside a matrix."""
    found: dict[Value, Sequence[Value]] = {}
    for op in function.walk():
        if op.name == CALL and forms_of(op) and len(op.operands) == 2 and tensor_type(op.operands[1]).rank in (1, 2):
            found[op.operands[0]] = (*found.get(op.operands[0], ()), op.operands[1])
    return found


def _told(op: Op, callee: Op) -> str | None:
    """The function of the library that the program called."""
    return str(op.attrs[AS]) if AS in op.attrs else library_name(callee.symbol, callee.span)


def _symbol(form: Attr) -> str:
    assert isinstance(form, tuple)
    return str(form[1])


def _writer(at: Op, op: Op) -> Writer:
    mode = op.attrs.get(NUMERICS)
    return writer(Builder.before(at), {} if mode is None else {NUMERICS: mode})


def _has_inverse(matrix: Value, *, turned: bool) -> bool:
    """Whether an inverse, or where it does not matter one that is turned, is a factor of what a call alone needs."""
    product = matrix.defining_op
    if product is None or product.name != applied.MATMUL or len(matrix.uses) > 1:
        return False
    factors: Sequence[Value] = product.operands
    if turned:
        factors = [op.operands[0] if (op := v.defining_op) and op.name == applied.PERMUTE else v for v in factors]
    makers = [value.defining_op for value in factors]
    if any(made is not None and INVERSE in forms_of(made) and len(made.operands) == 1 for made in makers):
        return True
    return any(_has_inverse(value, turned=turned) for value in product.operands)


def _is_inverse_for(op: Op, made: Op, asserting: Collection[str]) -> bool:
    """Whether an operation gives an inverse that a call alone needs, and may be left to it."""
    if INVERSE not in forms_of(made) or len(made.results[0].uses) > 1 or made.parent is not op.parent:
        return False
    return made.attrs.get(NUMERICS) == op.attrs.get(NUMERICS) and applied.may_move(made, op, asserting)
