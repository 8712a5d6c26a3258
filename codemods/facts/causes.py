"""The causes for which sites are left: a code for each, what it means, and what the user can do."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Where any rule may meet them.

OF_ALL: Mapping[str, str] = MappingProxyType(
    {
        "above-level": "The change may move results farther than `--level` allows. Choose a farther level, or select "
        "the rule by name.",
        "fails-today": "The script fails before any change, on current Python and PyTorch, so that no change of it "
        "could be checked. Fix the line that is named first.",
        "ignored": "A comment `# torchfast: ignore` says so. Take it away.",
        "not-editable": "The code has a form in which the change cannot be written: several statements share a line, "
        "the place is part of an f-string or of a larger expression, or a value that the change needs is in no "
        "statement of its own. Put each statement on lines of its own.",
        "not-measured": "`--verify` could not measure the change, which is one of rounding: nothing of it acts on this "
        "device. Run it on a GPU, try `--device simulated`, or write it all the same with `--unmeasured`.",
        "not-verified": "`--verify` ran the change, and it did not hold up.",
        "library-changed": "The script replaces a class, method or function of a library, and what it does then is not "
        "known. Write a class of your own that derives from the library's.",
        "older-torch": "The change needs a newer PyTorch than the oldest one that the script is known to run on. Raise "
        "the requirement, or say `--target-torch`.",
        "overlapping-change": "Another change touches the same code. Apply that one, and run torchfast again.",
        "too-deep": "The code is nested so deeply, or functions call each other over so many levels, that the rule "
        "could not follow it, and leaves the whole file. Other rules do what they can.",
    }
)
"""What stands in no rule's ``causes``, as every rule may report it."""

OF_SOME: Mapping[str, str] = MappingProxyType(
    {
        # What is not known: the code that decides is not read, or does what is not followed.
        "unknown-arguments": "The arguments of the call cannot be seen, as they come through `*` or `**` or are "
        "decided when the script runs. Write them out.",
        "unknown-array": "What is made a tensor is not known to be an array, or its number format is not known. Give "
        "it a `dtype` where it is made.",
        "unknown-batch": "What is moved is not known to be a batch of a `DataLoader`, or may be something else than "
        "tensors.",
        "unknown-dataset": "What the loader reads is not known: it comes from code that is not read, or is chosen when "
        "the script is started.",
        "unknown-device": "Whether the device is CUDA is not known. Make it with `torch.device(...)` in the script.",
        "unknown-loss": "The forward pass that belongs to the backward is not found. Compute the loss in the function "
        "that differentiates it.",
        "unknown-model": "What is trained is not known to be a model: it comes from code that is not read.",
        "unknown-optimizer": "What steps, or whose gradients are zeroed, is not known to be an optimizer.",
        "unknown-probabilities": "What the loss is given is not seen to be what a sigmoid returns, and nothing else. "
        "Compute the sigmoid where the loss is computed, or as the last step of `forward`.",
        "unknown-reading": "How the loader is read is not known, as code that is not followed does so.",
        "unknown-worker-code": "What the data set does in a worker process is not known: it runs code that is not "
        "read.",
        "unseen-step": "No training iteration is seen in which this takes part, or its optimizer steps elsewhere. "
        "Compute the loss, differentiate it and step in one function.",
        "no-name": "What the new code would refer to cannot be named there: `torch` is not imported or the name is "
        "taken, or a number or model has no name of its own. Give it a name before that place.",
        # Who decides.
        "determinism": "The script asks for results that repeat, which the change would not keep.",
        "done-already": "The script does this already, in another place.",
        "framework": "A framework runs the training loop, and has a switch of its own for this.",
        "script-decides": "The script, or its user by an option, says otherwise. Change what it says.",
        "unread-option": "The script has an option for this that nothing reads. Use its value.",
        "error-caught": "The script goes on after an error that the code raises, and would do otherwise without it. "
        "Let the error end the script.",
        "profile-used": "A profiler outside of the script may use what the code does for it. Take the code away where "
        "there is none.",
        "timing": "The script measures times, which would be other ones. Take the clock away where nobody looks at it.",
        "draws-elsewhere": "Random numbers would be drawn by the generator of the device: other ones, and other ones "
        "later on the host. Where that will do, name the device in the call.",
        "memory-scarce": "It matters to the script how much memory is in use, and the change may leave more of it in "
        "use. Where there is enough, take the line away by hand.",
        # The device.
        "batches-not-moved": "The batches are not seen to be moved to a device. Without a GPU there is nothing to "
        "gain.",
        "data-parallel": "`nn.DataParallel` copies the model into threads in each iteration. Use "
        "`DistributedDataParallel`.",
        "default-device": "The script says on which device new tensors are made, also those that the change needs on "
        "the host. Name the device where tensors are made.",
        "no-cuda": "Nothing is moved to CUDA here, where alone the change brings something.",
        "other-accelerator": "The device is another accelerator than CUDA.",
        "perhaps-other-device": "The copy may go to a device where it must block: the CPU, or MPS. Compare the device "
        "with `'cuda'`.",
        # Loaders.
        "already-on-device": "The data set or `collate_fn` works with tensors on a device, which can be neither pinned "
        "nor used in workers. Keep them on the host, and move batches.",
        "converted-on-host": "New tensors are made from the batch on the host, and those are moved: they are not in "
        "pinned memory. Move the batch first, and convert it on the device.",
        "loader-inspected": "Something of the loader is used that the change would take from it, such as its "
        "`batch_size`. Use the value that it is given.",
        "made-by-hand": "The script cuts its batches itself. A `DataLoader` could pin them, and of a tensor on the "
        "device they need not be copied.",
        "own-loader-class": "A class of the project makes or reads the loader in a way of its own. Give the argument "
        "where it calls `DataLoader`.",
        "unknown-layout": "Tensors whose axes were permuted lie in memory otherwise, and so would a batch that is "
        "indexed at once. Write `.contiguous()`.",
        "other-stream": "The script queues work on CUDA streams of its own, which may not wait for a copy that does "
        "not block. Copy on the stream that uses the batch, or let that wait with `wait_stream()`.",
        "own-dataset-class": "A class of the project makes the items of the data set, and may make other ones in each "
        "epoch. Where it does not, make tensors of them once, and give the loader a `TensorDataset`.",
        "partial-loader": "`functools.partial` makes the loader. Give the argument there.",
        "unpinnable": "What the batches are made of cannot be pinned: sparse tensors, or objects without "
        "`pin_memory()`.",
        "unpinned-loader": "The copy can only run beside the computation where the loader pins its batches, which it "
        "does not. See what `loader-pin` says of it.",
        "used-on-host": "Something uses the data where it has to be on the host: NumPy, or tensors there. Move the "
        "batch first, and copy back what is needed: `x.cpu()`.",
        "written-while-copied": "The batch is written on the host while it may still be copied. Write to a copy of it.",
        # Workers.
        "batches-kept": "The batches are kept, and each tensor from a worker holds a file open. Keep copies: "
        "`x.clone()`.",
        "cuda-in-worker": "The data set would use CUDA in worker processes: forked ones cannot, and each of the others "
        "takes memory of the GPU. Keep what it reads on the host.",
        "daemonic-process": "The loader is read in a process that may not start others.",
        "data-in-memory": "The items are in memory: to send them from a worker takes longer than to index them.",
        "dataset-inspected": "Something of the data set is used that tensors of its items have not, such as its "
        "`targets`. Ask a second object for it, or take it from the batches.",
        "draws-anew": "A transform, or what reads an item, draws random numbers for each of them in each epoch, as "
        "augmentation is meant to.",
        "items-handed-on": "Something else than the loader's own joining gets the items of the data set, and may write "
        "to them: what is kept would change with them. Have it copy what it changes.",
        "unknown-item-code": "Reading an item calls what is not known to make the same each time. Where it does, keep "
        "the items by hand, in a dictionary that `__init__` makes.",
        "too-large": "The data would take more than 1 GiB of memory, images once they are decoded and transformed; or "
        "how much is not known.",
        "images-used-elsewhere": "The images, their data set or the transform are used elsewhere as well, where "
        "nothing would normalise the images any more.",
        "not-normalized-last": "Other steps stand between ToTensor and Normalize or behind them, and would get bytes. "
        "Put them before ToTensor, where they take images of PIL's.",
        "other-images": "Other images get to the same place, which are not normalised, or by other numbers.",
        "other-module": "What has to change together stands in different files. Make the change by hand.",
        "unknown-images": "Whether the images have 8 bits for each channel, and are the first part of each item, is "
        "not known.",
        "unknown-transform": "What a transform does to an image is not known, and it may draw random numbers. Use "
        "torchvision's.",
        "dataset-changes": "The data set is changed while it is read or between epochs, and workers have copies of it.",
        "few-batches": "Few batches are read, or few each time that workers start: to set that up takes longer than "
        "it saves.",
        "left-with-another": "It depends on another finding, which is left. See what is said of that one.",
        "never-pays-back": "As the script stands, its network is too small or its iterations are too few: the change "
        "cannot save what it costs. `--select` with the rule's name applies it all the same.",
        "changes-in-loop": "What it is built of is another thing in another pass of the loop, or may be. Where it is "
        "not, build it above the loop.",
        "made-in-loop": "It is made or moved again and again, and each time the cost of starting comes back. Make it "
        "once, before the loop.",
        "needs-main-guard": "Worker processes that are not forked import the script, so that what reads the loader has "
        'to stand under `if __name__ == "__main__":`.',
        "not-divided-among-workers": "The data set is iterable: each worker would yield all of it. Yield the part that "
        "`torch.utils.data.get_worker_info()` gives this worker.",
        "not-picklable": "What is sent to worker processes cannot be pickled, or cannot be found there by its name. "
        "Define it at the top of a module.",
        "open-handle": "A file or database is opened before the workers start, who would share it. Open it in "
        "`__getitem__`, on first use.",
        "own-worker-init": "`worker_init_fn` runs when a worker starts: once, where workers stay.",
        "read-at-once": "The loader is read twice at once, and workers that stay serve one reading at a time. Make a "
        "loader for each.",
        "read-once": "The loader is not seen to be read more than once, and the change saves time from the second time "
        "on.",
        "sampler-changes": "The loop changes what the sampler draws the next batch by, and workers are given several "
        "batches ahead of it.",
        "seeded-when-made": "The data set owns random numbers, which every worker would repeat. Draw from "
        "`torch`'s generator, which is seeded in each worker.",
        "unseen-by-workers": "A worker would not see a name or a setting that only running the script gives a value. "
        "Pass it to the data set.",
        "waits-at-exit": "Before torch 2.13, `persistent_workers` together with `pin_memory` makes Python wait at its "
        "end for each worker of a loader that something still refers to: 5 s each, 40 s for two loaders with four. "
        "Make the loader in a function that returns, as `main()`; where the script runs on newer torch, require that "
        "or say `--target-torch 2.13`.",
        # Numbers that the host reads.
        "grows-long": "The loop may have very many passes, and each tensor that a list keeps takes 512 bytes of the "
        "device's memory. Append every so many iterations.",
        "integer-start": "A sum of floats starts from 0, and would be 0.0 where nothing is added to it. Start it from "
        "0.0.",
        "needed-each-step": "The script uses the number in each iteration, and waits for the device to get it. Use it "
        "every so many iterations: `if i % 100 == 0:`. What is only kept can be kept as a tensor, detached, and read "
        "after the loop.",
        "rounds-otherwise": "Code that is compiled may fuse a sum with what it adds, and round it otherwise. Add up "
        "outside of the compiled function.",
        "seen-elsewhere": "Other code may see the sum or list while the loop runs, or after an exception, and would "
        "find tensors. Keep it in a name that only the function of the loop has.",
        "several-devices": "What is added to one sum may lie on several CUDA devices. Keep a sum for each.",
        "times-steps": "The loop reads a clock. Where the host does not wait for the device, that shows when work was "
        "queued, not when it was done.",
        "unknown-number": "What is added or scaled by, or what the sum starts from, is not known to be a "
        "number of Python's, or not whether it is an integer, or a list may have items already. Write the start out "
        "before the loop, as 0.0 where floats are added.",
        "unread": "What each iteration copies to the host is read by nothing. Remove the copy.",
        "waits-anyway": "Something else in each iteration waits for the device, so that nothing is gained where this "
        "does not. See to that first.",
        # Gradients.
        "also-trains": "The code also trains. Put evaluation into a function of its own.",
        "double-backward": "Gradients are differentiated again, as a gradient penalty does.",
        "gradients-accumulated": "Gradients are added to others that the scaler has scaled otherwise. `--amp bf16` "
        "needs no scaler.",
        "gradients-may-miss": "Some parameter may get no gradient in a step. With a gradient of zeros, momentum and "
        "weight decay would move it; without any, they do not.",
        "gradients-read": "Other code reads, changes or keeps gradients, or hangs a hook on them, and would meet other "
        "ones.",
        "graph-used": "Another backward may go through the graph that this one keeps. Detach what crosses from one "
        "iteration to the next, and add losses of one iteration before one backward.",
        "graph-escapes": "A tensor that is computed here leaves the code, and may be trained on. Detach it.",
        "graph-shown": "What is kept is printed, saved or asked for its graph, and would look otherwise without it. "
        "Keep `loss.item()`, or print that.",
        "inner-gradient": "A gradient is asked for of what the model computes on the way, of which a compiled model "
        "has no graph.",
        "input-gradient": "A loop asks for gradients of what the model is given alone, as attacks of adversarial "
        "training do. A compiled backward computes those of all weights with them. Call `model.requires_grad_(False)` "
        "before the loop, and `model.requires_grad_()` after it: then it computes no more than is asked for.",
        "needs-gradients": "The code needs gradients itself.",
        "retained-graph": "A backward keeps the graph of the model, and another one may not have kept it. A backward "
        "that is compiled without keeping it refuses to keep it later.",
        "results-apart": "A call of the model returns several tensors, of which one backward may go through some and "
        "another backward through others. A compiled model has one graph for all of them, which the first one frees.",
        "data-replaced": "The `forward` of the model replaces the data of a tensor (`u.data = new`), and several calls "
        "of it go before one backward. That reads the data of the last call for all of them; compiled, it would read "
        "those of each call.",
        "captured": "The script captures its training as a CUDA graph itself. What is captured must not wait for the "
        "device, as a gradient scaler does. Make the change by hand, before the capture.",
        "compiles-nothing": "Compiled in place, a model that holds nothing but torch's own modules is not compiled "
        "before torch 2.15. Train what `torch.compile(model)` returns, or give the model a class with a "
        "`forward` of its own.",
        "own-method": "The class has a method of its own where PyTorch's is expected.",
        "shared-autocast": "The code shares a block of autocast with code that trains, which may keep copies of "
        "weights without a graph. Give it a block of its own.",
        "single-tensor": "The gradient of a single tensor is zeroed, which costs little.",
        "volatile": "`volatile=True` has had no effect since torch 0.4. Use `torch.no_grad()`.",
        # Mixed precision.
        "bootstrapped-target": "A network learns from targets that are made of what it estimates itself, as in "
        "Q-learning and actor-critic methods: large numbers that differ by little, of which bf16 keeps 8 bits. Put "
        "autocast by hand around layers that estimate no values, such as those that encode images.",
        "apex": "Apex's mixed precision patches PyTorch's functions, or keeps the weights in fp16 beside copies of 32 "
        "bits. Put `torch.autocast` around the forward pass and the loss, and scale with `torch.amp.GradScaler`.",
        "autocast-over-steps": "An optimizer steps more than once within one block of autocast, which casts the "
        "weights to 16 bits once and keeps these copies until it ends: later iterations compute with old weights. "
        "Enter the block in each iteration.",
        "backward-in-autocast": "The backward runs within the block of autocast. PyTorch advises against it: the block "
        "is meant for the forward pass and the loss.",
        "breaks-in-16-bits": "An operation has no 16-bit kernel, needs 32 bits, or is not cast by autocast.",
        "clipped-scaled": "Gradients are clipped while they are scaled, by 65,536 at first, and so to next to nothing. "
        "Call `scaler.unscale_(optimizer)` before.",
        "computes-in-fp16": "Under autocast cuDNN's recurrent layers compute in fp16, also where it is told bf16, and "
        "gradients in fp16 need a `GradScaler`: `--amp fp16`.",
        "custom-autograd": "A custom `autograd.Function` would get mixed number formats. Decorate it with "
        "`torch.amp.custom_fwd(device_type='cuda', cast_inputs=torch.float32)` and `custom_bwd(device_type='cuda')`, "
        "which are in `torch.cuda.amp`, and take no device, before torch 2.4; without `cast_inputs` nothing is cast.",
        "fp16-range": "A number does not fit fp16. `--amp bf16` has the range of 32 bits.",
        "handed-on": "The class or function itself is stored or handed on, so that it is called elsewhere, with the "
        "arguments of the old one. Hand on the new one, and call it with the device.",
        "idle-scaler": "A gradient scaler is made, and scales no loss: in fp16, small gradients become zero. Scale "
        "the loss, step by it and update it, or take it away.",
        "leaves-in-16-bits": "What is computed in 16 bits is used where 32 bits are expected. Write `.float()` there.",
        "loss-of-probabilities": "Probabilities near 1 are 1 in 16 bits, where the logarithm in the loss has no "
        "gradient. Return the logits, and use `binary_cross_entropy_with_logits`.",
        "no-place-for-scaler": "No place is found where a `GradScaler` is seen by all that has to use it. Make the "
        "optimizer in the function that trains; `--amp bf16` needs no scaler.",
        "other-precision": "The script chooses another number format itself.",
        "scale-not-updated": "Nothing calls `scaler.update()`, without which the scaler steps only once.",
        "scaled-step": "The loss is scaled, and the optimizer steps with the scaled gradients. Call "
        "`scaler.step(optimizer)`, which divides them by the scale.",
        "several-meanings": "The name may stand for something else, by another import or assignment. Import one thing "
        "by that name.",
        "probabilities-used": "Something else than the loss uses the probabilities, or may. Compute the sigmoid or "
        "softmax of the logits there, and give the loss the logits.",
        "several-optimizers": "Several optimizers step in one iteration in an order, or with parameters, that one "
        "scaler cannot follow. `--amp bf16` needs no scaler.",
        "step-closure": "`optimizer.step(closure)` is not supported by `GradScaler`. `--amp bf16` needs no scaler.",
        "step-without-backward": "An optimizer may step without gradients, for which `GradScaler` raises an error. "
        "`--amp bf16` needs no scaler.",
        # Blocks that are computed once more.
        "other-loop": "Only a loop that does `x = block(x)` and nothing else is changed: of what else blocks are given "
        "and return, it is not known what becomes of it.",
        "runs-twice": "A block that is computed once more would do again what counts: update statistics, call hooks, "
        "write to tensors or attributes.",
        "unknown-blocks": "Whether all blocks are of one class is not known. Build the list of them in `__init__`.",
        # Compilation.
        "called-again": "An iteration calls several models, or one several times, and CUDA graphs that run in turns "
        "overwrite what others returned. The default mode of `torch.compile` does not.",
        "gradients-added": "CUDA graphs compute gradients in the same memory each time, so that they must be dropped "
        "in each iteration: `zero_grad()`, one backward, one step. The default mode of `torch.compile` has no such "
        "need.",
        "outputs-kept": "CUDA graphs compute in the same memory each time: what the model returned is overwritten by "
        "its next call. Keep copies (`clone()`), or compile in the default mode.",
        "unseen-replay": "The model runs inside a wrapper, and whether that reads what CUDA graphs overwrite is not "
        "known. Compile in the default mode.",
        "dynamic-shapes": "Sizes differ from batch to batch, and each new size is compiled anew or fails.",
        "graph-break": "Python runs between the operations of `forward`, or makes what was compiled stale. Move it "
        "out of `forward`.",
        "inductor-fault": "Compilation fails beside this in some versions of PyTorch.",
        "other-layout": "Something in the model, or in what the script does with it, wants images or weights in the "
        "usual layout, or lays them out as before.",
        "late-hook": "A hook is added after the first call, which a compiled model ignores. Add it before.",
        "not-called": "The training does not call the model itself, and only that is compiled. Move the work into "
        "`forward`.",
        "other-process": "The script starts processes, and what is made before them is not theirs. Make the change in "
        "them.",
        "recurrent-model": "TorchDynamo does not trace recurrent layers.",
        "size-not-fixed": "The size of the images is not seen to be fixed, and for each new size all kernels are timed "
        "again. Images that are cropped to one size are seen to be.",
        "torchscript": "The model is traced or scripted, or its TorchScript is used as such, which does not go "
        "together with the change.",
        "idle-beside": "Another change of the same rewrite leaves this one nothing to speed up. `--ignore` with the "
        "name of its rule has this one written instead.",
        "needs-precision": "TF32 keeps 11 bits of each factor, and the script computes what needs more.",
        # Attention.
        "masked-rows": "A query whose keys are all masked gets the mean of all values where a finite number masks "
        'them, and zeros from the fused function. Fill with `float("-inf")` if there is no such query.',
        "other-attention": "What is computed is more than a softmax of scaled and masked scores, or is not seen to be "
        "just that: the fused function would compute something else.",
        "unknown-mask": "What is added to the scores, or put in their place, is not known to mask them as the fused "
        'function does: by floating-point numbers, or by `float("-inf")`; or to have two dimensions, as it takes no '
        "fewer. Where it has them, write `assert mask.dim() > 1` above the scores.",
        "other-dimensions": "Torch's fused kernels take four dimensions: (batch, heads, length, width). Where there "
        "are others, torch computes all scores as the script does. Where there are four, write `B, H, T, D = q.shape`.",
        "weights-used": "The weights of the attention, or its scores, are used elsewhere: the fused function has none. "
        "Where they are only looked at, compute them there.",
        "may-be-written": "A constant is given to code that may write to it or keep it, and would meet it again in the "
        "next iteration.",
        # Parameters that are changed by hand.
        "integer-buffers": "Buffers are changed beside the parameters, and some of them hold integers, which are cast "
        "one by one. Go through `parameters()`, and copy the buffers.",
        "not-elementwise": "What the loop does with each parameter has no counterpart among torch's functions for "
        "lists of tensors, or it passes over some parameters.",
        "unpaired-parameters": "Two models may have different numbers of parameters: `zip` ends with the shorter one, "
        "lists that do not fit raise an error. Make one a `copy.deepcopy` of the other, or build both alike.",
        "used-outside": "What the loop binds is used outside of it. Ask for it there anew.",
        # Optimizers.
        "checkpoint-loaded": "A checkpoint is loaded into the optimizer, and says how it steps: that of a plain one "
        "switches `fused` off again, and a `GradScaler` then fails. Where that can be seen, what is loaded is told of "
        "the fused form before.",
        "moved-later": "The model, or a layer of it, may be moved to the device only after the optimizer is made. Move "
        "the whole model first.",
        "late-gradients": "Some parameter may get its first gradient after others were stepped, where PyTorch's fused "
        "SGD with momentum raises a `TypeError`: it takes the momentum of all parameters of a group or of none. Give "
        "what comes later a group of its own, and add `fused=True` by hand; `AdamW` has no such limit. Where the code "
        "shows that the first step gives all of them gradients, in a way that is not seen, add it as well.",
        "momentum-unset": "A fused SGD makes its momentum in its first step without setting it, as far as torch 2.14. "
        "Where a `GradScaler` finds an overflow in that step, as is usual with its first scale, nothing sets it any "
        "more, and parameters become NaN. In bf16 there is no scaler (`--amp bf16`); in fp16 leave SGD as it is.",
        "other-order": "A fused step on the CPU goes through parameters, gradients and moments in the order of memory: "
        "where they lie differently, it computes something else without a word. Where you know that they do not, add "
        "`fused=True` by hand.",
        "not-fusible": "Sparse gradients and complex parameters are not taken by a fused step.",
        "optimizer-state-used": "The script uses the state of the optimizer, which a fused one keeps on the device.",
        # Tensors from arrays.
        "memory-shared": "The tensor would share its memory with an array that is used elsewhere.",
        "nothing-to-gain": "There is nothing to gain: one copy, one layer or one trial is all there is, or it never "
        "runs.",
        "other-arguments": "The call has arguments that the faster one does not take.",
        "other-result": "The faster call may give another result: other sizes, number formats or order of elements.",
    }
)
"""What the rules declare in their ``causes``."""

CAUSES: Mapping[str, str] = MappingProxyType({**OF_ALL, **OF_SOME})
