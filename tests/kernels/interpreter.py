"""Patches that make Triton's interpreter faster: each module is patched once, and each type is
looked up once.
"""


def patch_once() -> None:
    """Patch triton.language for the helpers of a module at their first call only, and keep the
    types of arrays.

    Triton is imported inside the function, because it reads TRITON_INTERPRET when it is imported.
    """
    import triton
    from triton.language.core import block_type
    from triton.runtime import interpreter
    from triton.runtime.interpreter import InterpretedFunction, _patch_lang

    patched = set()

    def call_helper(self, *args, **kwargs):
        module = self.fn.__globals__
        if module.get("tl") is not triton.language and module["__name__"] not in patched:
            _patch_lang(self.fn)
            patched.add(module["__name__"])
        return self.rewrite()(*args, **kwargs)

    InterpretedFunction.__call__ = call_helper
    # The interpreter builds a table of all types each time it looks up the type of an array.
    array_types, look_up = {}, interpreter._get_np_dtype

    def array_type(type_):
        name = (type_.element_ty if isinstance(type_, block_type) else type_).name
        if name not in array_types:
            array_types[name] = look_up(type_)
        return array_types[name]

    interpreter._get_np_dtype = array_type
