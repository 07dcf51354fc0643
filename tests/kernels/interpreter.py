"""Make Triton's interpreter faster: patch each module once."""


def patch_once() -> None:
    """Patch triton.language for the helpers of a module at their first call only.

    Triton is imported here, since it reads TRITON_INTERPRET when it is imported.
    """
    import triton
    from triton.runtime.interpreter import InterpretedFunction, _patch_lang

    patched = set()

    def call_helper(self, *args, **kwargs):
        module = self.fn.__globals__
        if module.get("tl") is not triton.language and module["__name__"] not in patched:
            _patch_lang(self.fn)
            patched.add(module["__name__"])
        return self.rewrite()(*args, **kwargs)

    InterpretedFunction.__call__ = call_helper
