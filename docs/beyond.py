"""Names of NumPy, PyTorch and JAX that are no work of an array program, each with who does it instead.

The page of equivalents shows them, and a test holds that every public function of the three is in its tables or here.
"""

from __future__ import annotations

SPECIAL_ALONE = (
    "agm ai_zeros airye assoc_laguerre assoc_legendre_p assoc_legendre_p_all bdtri bdtrik bdtrin bei bei_zeros beip "
    "beip_zeros ber ber_zeros berp berp_zeros besselpoly betainccinv bi_zeros btdtria btdtrib c_roots cg_roots "
    "chdtri chdtriv chebyc chebys chebyt chebyu chndtr chndtridf chndtrinc chndtrix cotdg diric ellip_harm "
    "ellip_harm_2 ellip_normal ellipj elliprc elliprd elliprf elliprg elliprj erf_zeros euler "
    "eval_chebyc eval_chebys eval_gegenbauer eval_genlaguerre eval_jacobi eval_sh_jacobi eval_sh_legendre "
    "factorial2 factorialk fdtr fdtrc fdtri fdtridfd fresnel_zeros fresnelc_zeros fresnels_zeros gammainccinv "
    "gdtria gdtrib gdtrix gegenbauer genlaguerre h1vp h2vp h_roots hankel1 hankel1e hankel2 hankel2e he_roots "
    "hermite hermitenorm hyp0f1 hyperu it2i0k0 it2j0y0 it2struve0 itairy iti0k0 itj0y0 itmodstruve0 itstruve0 "
    "ivp j_roots jacobi jn_zeros jnjnp_zeros jnp_zeros jnyn_zeros js_roots jve kei kei_zeros keip keip_zeros kelvin "
    "kelvin_zeros ker ker_zeros kerp kerp_zeros kolmogi kolmogorov kve kvp l_roots la_roots laguerre legendre "
    "legendre_p legendre_p_all lmbda log_wright_bessel lpmv lqmn lqn mathieu_a mathieu_b mathieu_cem "
    "mathieu_even_coef mathieu_modcem1 mathieu_modcem2 mathieu_modsem1 mathieu_modsem2 mathieu_odd_coef mathieu_sem "
    "modfresnelm modfresnelp modstruve nbdtr nbdtrc nbdtri nbdtrik nbdtrin ncfdtr ncfdtri ncfdtridfd ncfdtridfn "
    "ncfdtrinc nctdtr nctdtridf nctdtrinc nctdtrit nrdtrimn nrdtrisd obl_ang1 obl_ang1_cv obl_cv obl_cv_seq "
    "obl_rad1 obl_rad1_cv obl_rad2 obl_rad2_cv p_roots pbdn_seq pbdv pbdv_seq pbvv pbvv_seq pbwa pdtri pdtrik "
    "pro_ang1 pro_ang1_cv pro_cv pro_cv_seq pro_rad1 pro_rad1_cv pro_rad2 pro_rad2_cv ps_roots pseudo_huber "
    "riccati_jn riccati_yn roots_chebyc roots_chebys roots_chebyt roots_chebyu roots_gegenbauer roots_genlaguerre "
    "roots_hermite roots_hermitenorm roots_jacobi roots_laguerre roots_legendre roots_sh_chebyt roots_sh_chebyu "
    "roots_sh_jacobi roots_sh_legendre s_roots sh_chebyt sh_chebyu sh_jacobi sh_legendre smirnov smirnovi "
    "sph_harm_y_all sph_legendre_p sph_legendre_p_all spherical_in spherical_jn spherical_kn spherical_yn stdtridf "
    "stdtrit stirling2 struve t_roots tklmbda ts_roots u_roots us_roots wright_bessel wrightomega "
    "y0_zeros y1_zeros y1p_zeros yn_zeros ynp_zeros yve yvp"
)
"""Of `scipy.special`."""
BEYOND: tuple[tuple[str, str, str, str], ...] = (
    (
        "files and other memory: arrays come from Python, `tessera.load` and checkpoints",
        "asanyarray asarray_chkfinite asfortranarray asmatrix from_dlpack frombuffer fromfile fromiter fromregex "
        "byteswap dump dumps fromstring genfromtxt getfield isfortran item load may_share_memory nested_iters require "
        "save savetxt savez "
        "savez_compressed setfield setflags shares_memory to_device tobytes tofile tolist",
        "const_data_ptr data_ptr dim_order from_dlpack from_file from_numpy frombuffer get_device ipu is_contiguous "
        "is_distributed is_pinned is_set_to is_shared is_storage load module_load mtia new_empty_strided pin_memory "
        "record_stream resize_as save slice_inverse storage storage_offset storage_type to_dlpack to_mkldnn "
        "untyped_storage xpu",
        "addressable_data byteswap copy_to_host_async from_dlpack frombuffer fromfile fromiter fromstring item load "
        "save savez to_device",
    ),
    (
        "dtypes: known while compiling, and never changed in silence; `x.dtype`",
        "can_cast common_type isdtype isnat isrealobj isscalar issubdtype iterable min_scalar_type mintypecode "
        "promote_types result_type typename",
        "as_subclass can_cast chalf element_size get_default_dtype is_conj is_neg is_same_size is_signed new "
        "is_floating_point is_nonzero is_tensor promote_types result_type "
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
        "layouts of sparse tensors: `spmm_coo`, `spmm_csr` and `sddmm` take places and values as arrays",
        "",
        "ccol_indices coalesce col_indices crow_indices dense_dim index is_coalesced row_indices sparse_dim "
        "to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr values",
        "",
    ),
    (
        "quantised tensors: a scale is part of a type, `i8 @scale(axis=0)`, or an array beside the integers",
        "",
        "int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme",
        "",
    ),
    (
        "gradients that are kept with a tensor: `grad(f)` is a function",
        "",
        "register_hook register_post_accumulate_grad_hook reinforce retain_grad",
        "",
    ),
    (
        "functions of physics and statistics that SciPy alone has (Mathieu, Struve, Kelvin and "
        "spheroidal functions, zeros, roots and objects of polynomials, inverse distributions): called from Python, or "
        "a search",
        SPECIAL_ALONE,
        "",
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
