// The texts are what programs really printed; paths and addresses are shortened.
#include "cohort/launch/output/error_line.h"

#include <gtest/gtest.h>

#include <csignal>

#include "cohort/base/text.h"

namespace cohort::launch {
namespace {

std::string found(const std::string& output, ExitStatus exit = {.code = 1}) {
  ErrorLine line;
  for (const auto& text : split(output, '\n')) line.add(text);
  return line.text(exit);
}

constexpr const char* kDirectCause = R"(Traceback (most recent call last):
  File "/tmp/chain.py", line 4, in <module>
    load("/nowhere/data.bin")
  File "/tmp/chain.py", line 2, in load
    return open(path)
           ^^^^^^^^^^
FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/data.bin'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/tmp/chain.py", line 6, in <module>
    raise ValueError("the data set cannot be read") from error
ValueError: the data set cannot be read
)";

constexpr const char* kDuringHandling = R"(Traceback (most recent call last):
  File "/tmp/chain2.py", line 2, in <module>
    {}["batch_size"]
    ~~^^^^^^^^^^^^^^
KeyError: 'batch_size'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/tmp/chain2.py", line 4, in <module>
    int("many")
ValueError: invalid literal for int() with base 10: 'many'
)";

TEST(ErrorLine, OfAPythonChainIsTheLastException) {
  EXPECT_EQ(found(kDirectCause), "ValueError: the data set cannot be read");
  EXPECT_EQ(found(kDuringHandling), "ValueError: invalid literal for int() with base 10: 'many'");
}

// With TORCH_SHOW_CPP_STACKTRACES=1; torch 2.13.
constexpr const char* kTorch =
    R"([W1116 11:32:48.769038167 Module.cpp:206] symbolizing C++ stack trace for exception; if this hangs, rerun with TORCH_DISABLE_ADDR2LINE=1...

Traceback (most recent call last):
  File "/tmp/t.py", line 2, in <module>
    torch.mm(torch.zeros(3,4), torch.zeros(5,6))
RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)
Exception raised from meta at /pytorch/aten/src/ATen/native/LinearAlgebra.cpp:204 (most recent call first):
C++ CapturedTraceback:
#4 std::_Function_handler<std::shared_ptr<c10::LazyValue<std::string> const> (), c10::SetStackTraceFetcher from ??:0
#5 c10::Error::Error(c10::SourceLocation, std::__cxx11::basic_string<char>) from ??:0
#6 c10::detail::torchCheckFail(char const*, char const*, unsigned int) from ??:0
#14 cfunction_call from /Python-3.11.7/Objects/methodobject.c:542
#25 _start from ??:0
)";

constexpr const char* kTorchInCpp =
    R"(terminate called after throwing an instance of 'c10::Error'
  what():  mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)
Exception raised from meta at /aten/src/ATen/native/LinearAlgebra.cpp:204 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x9e (0x7f4c3 in libc10.so)
frame #1: c10::detail::torchCheckFail(char const*, char const*, unsigned int) + 0x10b (0x7f4c3 in libc10.so)
frame #2: <unknown function> + 0x29d90 (0x7f4c2 in libc.so.6)
)";

TEST(ErrorLine, OfLibTorchIsTheErrorAndNotAFrame) {
  constexpr const char* kError = "mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)";
  EXPECT_EQ(found(kTorch), std::string("RuntimeError: ") + kError);
  EXPECT_EQ(found(kTorchInCpp, {.signal = SIGABRT}), std::string("c10::Error: ") + kError);
  EXPECT_TRUE(is_stack_frame("frame #12: main + 0x3 (0x7f in train)"));
  EXPECT_TRUE(is_stack_frame("[rank1]: frame #0: c10::Error::Error() (0x7f)"));
  EXPECT_TRUE(is_stack_frame("    #0 0x559b7a57e68b in main /tmp/df.cpp:11"));
  EXPECT_FALSE(is_stack_frame("#1 of 3 files is read"));
  EXPECT_FALSE(is_stack_frame("frame #x"));
}

constexpr const char* kTensorFlow = R"(Traceback (most recent call last):
  File "/tmp/train.py", line 30, in <module>
    model.fit(data)
  File "/lib/keras/src/utils/traceback_utils.py", line 122, in error_handler
    raise e.with_traceback(filtered_tb) from None
tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node gradient_tape/mul defined at (most recent call last):
  File "/tmp/train.py", line 30, in <module>

  File "/lib/keras/src/engine/training.py", line 1742, in fit

Matrix size-incompatible: In[0]: [3,4], In[1]: [5,6]
	 [[{{node gradient_tape/mul}}]] [Op:__inference_train_function_1221]

Original stack trace for 'dense/MatMul':
  File "/tmp/train.py", line 30, in <module>
    model.fit(data)
  File "/lib/tensorflow/python/framework/ops.py", line 1221, in from_node_def
2026-11-15 10:45:21.2: W tensorflow/core/framework/op_kernel.cc:1839] OP_REQUIRES failed
)";

constexpr const char* kTensorFlow1 = R"(Traceback (most recent call last):
  File "/lib/tensorflow/python/client/session.py", line 1402, in _do_call
    raise type(e)(node_def, op, message)
tensorflow.python.framework.errors_impl.CancelledError: Run call was cancelled

Original stack trace for 'save/Restore':
  File "/lib/tensorflow/python/training/saver.py", line 835, in __init__
    self.build()
  File ".../ops.py", line 1221, in from_node_def
)";

constexpr const char* kAutograph = R"(Traceback (most recent call last):
  File "/tmp/g.py", line 5, in <module>
    print(f(tf.ones([6]), tf.ones([8])))
          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: in user code:

    File "/tmp/g.py", line 4, in f  *
        return tf.linalg.matmul(tf.reshape(a, [-1, 3]), tf.reshape(b, [-1, 4]))

    ValueError: Dimensions must be equal, but are 3 and 2 for '{{node MatMul}} = MatMul(...)'

)";

TEST(ErrorLine, OfTensorFlowsAutographIsTheExceptionThatItRepeats) {
  EXPECT_EQ(found(kAutograph),
            "ValueError: Dimensions must be equal, but are 3 and 2 for '{{node MatMul}} = "
            "MatMul(...)'");
}

TEST(ErrorLine, OfTensorFlowIsTheExceptionAndNotTheOriginalStackTrace) {
  EXPECT_EQ(found(kTensorFlow),
            "tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error: "
            "Matrix size-incompatible: In[0]: [3,4], In[1]: [5,6]");
  EXPECT_EQ(found(kTensorFlow1),
            "tensorflow.python.framework.errors_impl.CancelledError: Run call was cancelled");
}

TEST(ErrorLine, OfPythonIsTheExceptionBehindWhichMoreOfItsMessageStands) {
  EXPECT_EQ(found("Traceback (most recent call last):\n  File \"t.py\", line 2\n    x.cuda()\n"
                  "RuntimeError: CUDA error: device-side assert triggered\n"
                  "CUDA kernel errors might be asynchronously reported at some other API call.\n"
                  "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"),
            "RuntimeError: CUDA error: device-side assert triggered");
  EXPECT_EQ(found("Traceback (most recent call last):\n  File \"j.py\", line 9\n    f(x)\n"
                  "TypeError: dot_general requires contracting dimensions to have the same shape\n"
                  "--------------------\n"
                  "For simplicity, JAX has removed its internal frames from the traceback of the "
                  "following exception. Set JAX_TRACEBACK_FILTERING=off to include these.\n"),
            "TypeError: dot_general requires contracting dimensions to have the same shape");
  EXPECT_EQ(found("[rank0]: Traceback (most recent call last):\n[rank0]:   File \"t.py\", line 2\n"
                  "[rank0]: ValueError: sample 30 is broken\n[rank0]: \n"),
            "[rank0]: ValueError: sample 30 is broken");
}

TEST(ErrorLine, OfCppIsWhatNobodyCaught) {
  EXPECT_EQ(found("step 3\nterminate called after throwing an instance of 'std::runtime_error'\n"
                  "  what():  the loss is not finite\n",
                  {.signal = SIGABRT}),
            "std::runtime_error: the loss is not finite");
  EXPECT_EQ(found("terminate called after throwing an instance of 'int'\n", {.signal = SIGABRT}),
            "terminate called after throwing an instance of 'int'");
}

TEST(ErrorLine, OfTheCLibraryIsItsComplaint) {
  for (const char* complaint :
       {"double free or corruption (!prev)", "free(): invalid pointer",
        "malloc(): corrupted top size", "*** stack smashing detected ***: terminated",
        "df: df.cpp:10: int main(int, char**): Assertion `c>5 && \"need more\"' failed."})
    EXPECT_EQ(found(std::string("step 1\n") + complaint + "\nanother thread still prints\n",
                    {.signal = SIGABRT}),
              complaint);
}

constexpr const char* kAddressSanitizer =
    R"(=================================================================
==17977==ERROR: AddressSanitizer: heap-use-after-free on address 0x602000000014 at pc 0x559b7a57e68c
READ of size 4 at 0x602000000014 thread T0
    #0 0x559b7a57e68b in main /tmp/df.cpp:11
    #1 0x7fc8f1445249 in __libc_start_call_main ../sysdeps/nptl/libc_start_call_main.h:58

0x602000000014 is located 4 bytes inside of 12-byte region [0x602000000010,0x60200000001c)
freed by thread T0 here:
    #0 0x7fc8f16ba038 in operator delete[](void*) asan_new_delete.cpp:155
    #1 0x559b7a57e623 in main /tmp/df.cpp:11

SUMMARY: AddressSanitizer: heap-use-after-free /tmp/df.cpp:11 in main
Shadow bytes around the buggy address:
  0x0c047fff7fb0: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
=>0x0c047fff8000: fa fa[fd]fd fa fa fa fa fa fa fa fa fa fa fa fa
  0x0c047fff8010: fa fa fa fa fa fa fa fa fa fa fa fa fa fa fa fa
Shadow byte legend (one shadow byte represents 8 application bytes):
  Addressable:           00
  Freed heap region:       fd
==17977==ABORTING
)";

TEST(ErrorLine, OfASanitizerIsItsSummary) {
  EXPECT_EQ(found(kAddressSanitizer),
            "SUMMARY: AddressSanitizer: heap-use-after-free /tmp/df.cpp:11 in main");
  constexpr const char* kOverflow =
      "df.cpp:12:44: runtime error: signed integer overflow: 2147483647 + 2 cannot be represented "
      "in type 'int'";
  EXPECT_EQ(found(kOverflow), kOverflow);
}

TEST(ErrorLine, AnErrorThatWasOvercomeIsNotWhyItEnded) {
  const std::string handled =
      "Traceback (most recent call last):\n  File \"t.py\", line 2\nOSError: try again\n";
  EXPECT_EQ(found(handled + "step 4\n", {.signal = SIGKILL}), "step 4");
  EXPECT_EQ(found(handled + "step 4\nno more data\n", {.code = 3}), "no more data");
  EXPECT_EQ(found(handled + "step 4\nValueError: bad shape [3, 4]\n"),
            "ValueError: bad shape [3, 4]");
  std::string many = handled;
  for (int i = 0; i < 100; ++i) many += "step " + std::to_string(i) + "\n";
  EXPECT_EQ(found(many), "step 99");
}

TEST(ErrorLine, OtherwiseTheLastLineThatSaysSomething) {
  EXPECT_EQ(found(""), "");
  EXPECT_EQ(found("step 1\nboom\n\n   \n"), "boom");
  EXPECT_EQ(found("terminate called without an active exception\n"),
            "terminate called without an active exception");
  ErrorLine step;
  step.add("no such data");
  step.add("srun: error: n2: task 0: Exited with exit code 3");
  EXPECT_EQ(step.text({.code = 3}), "no such data");
  ErrorLine line;
  line.add("epoch 1");
  line.add("10%", true);
  line.add("20%", true);
  EXPECT_EQ(line.text({.signal = SIGKILL}), "20%");
  line.add(std::string(100'000, 'x'));
  EXPECT_LT(line.text({.code = 1}).size(), 1000u);
}

}  // namespace
}  // namespace cohort::launch
