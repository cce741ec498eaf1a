"""Names of NumPy, PyTorch and JAX that are no work of an array program, each with who does it instead.

The page of equivalents shows them, and a test holds that every public function of the three is in its tables or here.
"""

from __future__ import annotations

BEYOND: tuple[tuple[str, str, str, str], ...] = (
    (
        "files and other memory: arrays come from Python, `tessera.load` and checkpoints",
        "asanyarray asarray_chkfinite asfortranarray asmatrix from_dlpack frombuffer fromfile fromiter fromregex "
        "fromstring genfromtxt isfortran load may_share_memory nested_iters require save savetxt savez "
        "savez_compressed shares_memory",
        "from_dlpack from_file from_numpy frombuffer is_storage load save to_dlpack",
        "from_dlpack frombuffer fromfile fromiter fromstring load save savez",
    ),
    (
        "dtypes: known while compiling, and never changed in silence; `x.dtype`",
        "can_cast common_type isdtype isnat isrealobj isscalar issubdtype iterable min_scalar_type mintypecode "
        "promote_types result_type typename",
        "can_cast get_default_dtype is_conj is_floating_point is_nonzero is_tensor promote_types result_type "
        "set_default_dtype set_default_tensor_type typename",
        "can_cast dtype isdtype isrealobj isscalar issubdtype iterable promote_types result_type",
    ),
    (
        "text and printing: `print` in a program, formats in Python",
        "array2string array_repr array_str base_repr binary_repr format_float_positional format_float_scientific "
        "get_printoptions info printoptions set_printoptions",
        "set_printoptions",
        "array_repr array_str get_printoptions printoptions set_printoptions",
    ),
    (
        "settings of a process: threads by `tessera.set_num_threads`; bits are always the same, generators are keys",
        "default_rng get_bit_generator get_include get_state getbufsize geterr geterrcall seed set_bit_generator "
        "set_state setbufsize seterr seterrcall show_config show_runtime test",
        "are_deterministic_algorithms_enabled compiled_with_cxx11_abi get_default_device "
        "get_deterministic_debug_mode get_device_module get_float32_matmul_precision get_num_interop_threads "
        "get_num_threads get_rng_state init_num_threads initial_seed is_deterministic_algorithms_warn_only_enabled "
        "is_grad_enabled is_inference is_inference_mode_enabled is_warn_always_enabled manual_seed seed "
        "set_default_device set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal "
        "set_num_interop_threads set_num_threads set_rng_state set_warn_always thread_safe_generator "
        "use_deterministic_algorithms",
        "",
    ),
    (
        "of some versions only: `vstack`, and `cross_entropy` of a product",
        "row_stack",
        "linear_cross_entropy",
        "",
    ),
    (
        "dates",
        "busday_count busday_offset datetime_as_string datetime_data is_busday",
        "",
        "",
    ),
    (
        "copies of views: a value is never another one's memory",
        "",
        "alias_copy as_strided_copy col_indices_copy crow_indices_copy detach_copy diagonal_copy expand_copy "
        "indices_copy narrow_copy permute_copy resolve_neg select_copy slice_copy split_copy split_with_sizes_copy "
        "squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy values_copy view_as_complex_copy "
        "view_as_real_copy view_copy",
        "",
    ),
    (
        "the compiler and its program: `tessera.compile`, sizes as symbols, the order of effects",
        "",
        "Optional assert_int_or_pair boolean_dispatch compile fork handle_torch_function has_torch_function "
        "has_torch_function_unary has_torch_function_variadic import_ir_module import_ir_module_from_buffer "
        "merge_type_from_type_comment parse_ir parse_schema parse_type_comment sym_float sym_int sym_ite sym_max "
        "sym_min sym_not sym_sum unify_type_list wait",
        "ConvGeneralDilatedDimensionNumbers DotDimensionNumbers PrecisionLike after_all composite "
        "conv_dimension_numbers conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple create_token "
        "dce_sink get_scaled_dot_general_config map optimization_barrier padtype_to_pads pcast platform_dependent "
        "precv psend reduce reduce_window_shape_tuple shape_as_value stage with_sharding_constraint",
    ),
)
"""Why, and the names in the three libraries."""
