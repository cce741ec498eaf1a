"""The few intrinsics of a GPU that threads of this machine need, as LLVM text: what lanes of a warp tell each other
goes through memory, between barriers."""

HELPERS = """
@emu_cta = external global [0 x i8]
@emu_warps = external global [0 x i8]
@emu_programs = external global [0 x i8]
@emu_slots = external global [0 x i8]
declare i32 @pthread_barrier_wait(ptr)
declare float @exp2f(float)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; A processor without an instruction for it calls this, and a process may lack it: then no name at all is found.
define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %last = lshr i32 %bits, 16
  %odd = and i32 %last, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %quiet = or i32 %bits, 4194304
  %unordered = fcmp uno float %x, %x
  %rounded = select i1 %unordered, i32 %quiet, i32 %sum
  %high = lshr i32 %rounded, 16
  %short = trunc i32 %high to i16
  %y = bitcast i16 %short to bfloat
  ret bfloat %y
}

define internal void @emu_barrier(i32 %tid) {
  %done = call i32 @pthread_barrier_wait(ptr @emu_cta)
  ret void
}

define internal void @emu_warp_barrier(i32 %tid) {
  %warp = lshr i32 %tid, 5
  %at = mul i32 %warp, 64
  %barrier = getelementptr i8, ptr @emu_warps, i32 %at
  %done = call i32 @pthread_barrier_wait(ptr %barrier)
  ret void
}

define internal void @emu_program_barrier(i32 %number) {
  %at = mul i32 %number, 64
  %barrier = getelementptr i8, ptr @emu_programs, i32 %at
  %done = call i32 @pthread_barrier_wait(ptr %barrier)
  ret void
}

define internal i32 @emu_shuffle(i32 %tid, i32 %word, i32 %lane) {
  %warp = lshr i32 %tid, 5
  %at = mul i32 %warp, 64
  %barrier = getelementptr i8, ptr @emu_warps, i32 %at
  %mine = getelementptr i32, ptr @emu_slots, i32 %tid
  store volatile i32 %word, ptr %mine
  %first = call i32 @pthread_barrier_wait(ptr %barrier)
  %other = xor i32 %tid, %lane
  %theirs = getelementptr i32, ptr @emu_slots, i32 %other
  %found = load volatile i32, ptr %theirs
  %second = call i32 @pthread_barrier_wait(ptr %barrier)
  ret i32 %found
}

define internal i32 @emu_match(i32 %tid, i32 %word) {
  %warp = lshr i32 %tid, 5
  %at = mul i32 %warp, 64
  %barrier = getelementptr i8, ptr @emu_warps, i32 %at
  %mine = getelementptr i32, ptr @emu_slots, i32 %tid
  store volatile i32 %word, ptr %mine
  %first = call i32 @pthread_barrier_wait(ptr %barrier)
  %start = and i32 %tid, -32
  br label %again
again:
  %lane = phi i32 [ 0, %0 ], [ %next, %again ]
  %mask = phi i32 [ 0, %0 ], [ %more, %again ]
  %other = or i32 %start, %lane
  %theirs = getelementptr i32, ptr @emu_slots, i32 %other
  %found = load volatile i32, ptr %theirs
  %same = icmp eq i32 %found, %word
  %bit = shl i32 1, %lane
  %set = select i1 %same, i32 %bit, i32 0
  %more = or i32 %mask, %set
  %next = add i32 %lane, 1
  %left = icmp ult i32 %next, 32
  br i1 %left, label %again, label %done
done:
  %second = call i32 @pthread_barrier_wait(ptr %barrier)
  ret i32 %more
}

define internal i32 @emu_ballot(i32 %tid, i1 %yes) {
  %word = zext i1 %yes to i32
  %same = call i32 @emu_match(i32 %tid, i32 %word)
  %others = xor i32 %same, -1
  %lanes = select i1 %yes, i32 %same, i32 %others
  ret i32 %lanes
}

define internal float @emu_shuffle_float(i32 %tid, float %value, i32 %lane) {
  %word = bitcast float %value to i32
  %found = call i32 @emu_shuffle(i32 %tid, i32 %word, i32 %lane)
  %result = bitcast i32 %found to float
  ret float %result
}

define internal float @emu_to_zero(double %value) {
  %near = fptrunc double %value to float
  %back = fpext float %near to double
  %far = call double @llvm.fabs.f64(double %back)
  %size = call double @llvm.fabs.f64(double %value)
  %beyond = fcmp ogt double %far, %size
  %bits = bitcast float %near to i32
  %less = sub i32 %bits, 1
  %kept = select i1 %beyond, i32 %less, i32 %bits
  %result = bitcast i32 %kept to float
  ret float %result
}

define internal float @emu_reciprocal(float %value) {
  %right = fdiv float 1.0, %value
  %bits = bitcast float %right to i32
  %off = xor i32 %bits, 1
  %number = fcmp ord float %right, %right
  %kept = select i1 %number, i32 %off, i32 %bits
  %result = bitcast i32 %kept to float
  ret float %result
}

define internal void @emu_copy(ptr %to, ptr %from, i32 %bytes, i32 %present) {
  %all = zext i32 %bytes to i64
  %some = zext i32 %present to i64
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %all, i1 0)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %some, i1 0)
  ret void
}
define internal <2 x bfloat> @emu_narrow(float %high, float %low) {
  %first = insertelement <2 x float> poison, float %low, i32 0
  %both = insertelement <2 x float> %first, float %high, i32 1
  %narrow = fptrunc <2 x float> %both to <2 x bfloat>
  ret <2 x bfloat> %narrow
}
"""
